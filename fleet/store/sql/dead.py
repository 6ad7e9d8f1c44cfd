"""Dead letters: steps that took their workers down, kept with the cause until a person replays them."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select, tuple_, update

from fleet.core.ids import RunId, StepId, WorkerId
from fleet.core.value import Value
from fleet.store.sql.database import Database
from fleet.store.sql.rows import plain, upsert
from fleet.store.sql.tables import DEAD_LETTERS, clock


class DeadLetter(Value):
    """A step that is given up. losses: workers it took. worker: the last of them. replayed: when it was replayed."""

    run_id: RunId
    step_id: StepId
    cause: str
    losses: int
    worker: WorkerId
    died: datetime
    replayed: datetime | None = None


Letters = list[DeadLetter]


class DeadLetters:
    """One letter a step: one that dies again after a replay renews its letter."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, run_id: RunId, step_id: StepId, cause: str, losses: int, worker: WorkerId) -> None:
        """Keep a letter; durable on return."""
        told = {"cause": plain(cause), "losses": losses, "worker": worker}
        row = {"run_id": run_id, "step_id": step_id, **told}
        renewed = {**told, "died": clock(), "replayed": None}
        self._db.write(lambda connection: upsert(DEAD_LETTERS, connection, row, renewed))

    def get(self, run_id: RunId, step_id: StepId) -> DeadLetter | None:
        query = select(DEAD_LETTERS).where(*_is(run_id, step_id))
        row = self._db.fetch(lambda connection: connection.execute(query).first())
        return None if row is None else _letter(row)

    def mark_replayed(self, run_id: RunId, step_id: StepId) -> bool:
        """Whether there is such a letter; it is marked with the time of its first replay since it died."""
        mark = update(DEAD_LETTERS).where(*_is(run_id, step_id), DEAD_LETTERS.c.replayed.is_(None))
        known = select(DEAD_LETTERS.c.run_id).where(*_is(run_id, step_id))

        def work(connection: Connection) -> bool:
            connection.execute(mark.values(replayed=clock()))
            return connection.execute(known).first() is not None

        return self._db.write(work)

    def list(
        self,
        run_id: RunId | None = None,
        *,
        replayed: bool = False,
        limit: int = 500,
        after: tuple[RunId, StepId] | None = None,
    ) -> Letters:
        """Letters by run and step, from behind `after`. replayed: also those that were replayed."""
        query = select(DEAD_LETTERS)
        if run_id is not None:
            query = query.where(DEAD_LETTERS.c.run_id == run_id)
        if not replayed:
            query = query.where(DEAD_LETTERS.c.replayed.is_(None))
        if after is not None:
            query = query.where(tuple_(DEAD_LETTERS.c.run_id, DEAD_LETTERS.c.step_id) > tuple_(*after))
        query = query.order_by(DEAD_LETTERS.c.run_id, DEAD_LETTERS.c.step_id).limit(limit)
        return self._db.fetch(lambda connection: [_letter(row) for row in connection.execute(query)])


def _is(run_id: RunId, step_id: StepId) -> tuple[Any, Any]:
    return DEAD_LETTERS.c.run_id == run_id, DEAD_LETTERS.c.step_id == step_id


def _letter(row: Row[Any]) -> DeadLetter:
    return DeadLetter(
        run_id=row.run_id,
        step_id=row.step_id,
        cause=row.cause,
        losses=row.losses,
        worker=row.worker,
        died=row.died,
        replayed=row.replayed,
    )
