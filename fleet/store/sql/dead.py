"""Dead letters: steps that took their workers down, kept with the cause until a person replays them."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, or_, select, tuple_, update

from fleet.core.ids import GoalId, RunId, StepId, WorkerId
from fleet.core.value import Value
from fleet.store.sql.database import Database
from fleet.store.sql.rows import plain, upsert
from fleet.store.sql.tables import DEAD_LETTERS, RUNS, clock

TAKEN = "~"
"""What the mark of a replay that is under way begins with; no run's id does."""
STALE = 60.0
"""Seconds after which a replay that is under way is taken for one whose process died."""


class DeadLetter(Value):
    """A step that is given up. losses: workers it took. worker: the last of them.

    id: how people name it, run and step. tool: what the step called, where that is known. replayed: when it was
    replayed; replay: as which run.
    """

    id: str
    run_id: RunId
    step_id: StepId
    goal_id: GoalId
    tenant: str
    tool: str = ""
    cause: str
    losses: int
    worker: WorkerId
    died: datetime
    replayed: datetime | None = None
    replay: RunId | None = None


class Wanted(Value):
    """Which letters are meant: all of what is given has to fit. since: those that died then or later.

    cause: a text that the cause holds, in capitals or not.
    """

    run: RunId | None = None
    goal: GoalId | None = None
    tool: str | None = None
    tenant: str | None = None
    cause: str | None = None
    since: datetime | None = None


Letters = list[DeadLetter]
ANY = Wanted()


class DeadLetters:
    """One letter a step: one that dies again after a replay renews its letter."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, run_id: RunId, step_id: StepId, cause: str, losses: int, worker: WorkerId, *, tool: str = "") -> None:
        """Keep a letter; durable on return."""
        told = {"cause": plain(cause), "losses": losses, "worker": worker, "tool": tool}
        row = {"run_id": run_id, "step_id": step_id, **told}
        renewed = {**told, "died": clock(), "replayed": None, "replay": None}
        self._db.write(lambda connection: upsert(DEAD_LETTERS, connection, row, renewed))

    def get(self, run_id: RunId, step_id: StepId) -> DeadLetter | None:
        query = _letters().where(_is(run_id, step_id))
        row = self._db.fetch(lambda connection: connection.execute(query).first())
        return None if row is None else _letter(row)

    def take(self, run_id: RunId, step_id: StepId) -> str | None:
        """Begin a replay: its mark, or None where the letter was replayed, or is being so by somebody else.

        A replay that was begun a minute ago and never ended was its process's last.
        """
        mark = TAKEN + uuid.uuid4().hex
        stale = and_(DEAD_LETTERS.c.replay.startswith(TAKEN), DEAD_LETTERS.c.replayed < self._db.now() - _A_WHILE)
        free = or_(DEAD_LETTERS.c.replayed.is_(None), stale, DEAD_LETTERS.c.replay == mark)
        change = update(DEAD_LETTERS).where(_is(run_id, step_id), free).values(replayed=clock(), replay=mark)
        taken = self._db.write(lambda connection: connection.execute(change).rowcount == 1)
        return mark if taken else None

    def settle(self, run_id: RunId, step_id: StepId, mark: str, replay: RunId | None) -> None:
        """End a replay that was begun with `mark`: as which run, or that it came to none."""
        change = update(DEAD_LETTERS).where(_is(run_id, step_id), DEAD_LETTERS.c.replay == mark)
        change = change.values(replay=replay) if replay else change.values(replay=None, replayed=None)

        def work(connection: Connection) -> None:
            connection.execute(change)

        self._db.write(work)

    def list(
        self,
        wanted: Wanted = ANY,
        *,
        replayed: bool = False,
        limit: int = 500,
        after: tuple[RunId, StepId] | None = None,
    ) -> Letters:
        """Letters by run and step, from behind `after`. replayed: also those that were replayed."""
        query = _letters().where(*_fit(wanted))
        if not replayed:
            query = query.where(DEAD_LETTERS.c.replayed.is_(None))
        if after is not None:
            query = query.where(tuple_(DEAD_LETTERS.c.run_id, DEAD_LETTERS.c.step_id) > tuple_(*after))
        query = query.order_by(DEAD_LETTERS.c.run_id, DEAD_LETTERS.c.step_id).limit(limit)
        return self._db.fetch(lambda connection: [_letter(row) for row in connection.execute(query)])


_A_WHILE = timedelta(seconds=STALE)


def _letters() -> Select[Any]:
    return select(DEAD_LETTERS, RUNS.c.goal_id, RUNS.c.tenant).join(RUNS, RUNS.c.run_id == DEAD_LETTERS.c.run_id)


def _fit(wanted: Wanted) -> list[ColumnElement[bool]]:
    equal = (
        (DEAD_LETTERS.c.run_id, wanted.run),
        (RUNS.c.goal_id, wanted.goal),
        (DEAD_LETTERS.c.tool, wanted.tool),
        (RUNS.c.tenant, wanted.tenant),
    )
    found: list[ColumnElement[bool]] = [column == value for column, value in equal if value is not None]
    if wanted.cause is not None:
        found.append(DEAD_LETTERS.c.cause.icontains(wanted.cause, autoescape=True))
    if wanted.since is not None:
        found.append(DEAD_LETTERS.c.died >= wanted.since)
    return found


def _is(run_id: RunId, step_id: StepId) -> ColumnElement[bool]:
    return and_(DEAD_LETTERS.c.run_id == run_id, DEAD_LETTERS.c.step_id == step_id)


def _letter(row: Row[Any]) -> DeadLetter:
    return DeadLetter(
        id=f"{row.run_id}:{row.step_id}",
        run_id=row.run_id,
        step_id=row.step_id,
        goal_id=row.goal_id,
        tenant=row.tenant,
        tool=row.tool,
        cause=row.cause,
        losses=row.losses,
        worker=row.worker,
        died=row.died,
        replayed=row.replayed,
        replay=None if (row.replay or TAKEN).startswith(TAKEN) else row.replay,
    )
