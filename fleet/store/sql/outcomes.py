"""The journal: one outcome for each step of a run, and it stands."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from fleet.core.ids import Fence, RunId, StepId
from fleet.core.outcome import Outcome
from fleet.store.sql.behind import Behind
from fleet.store.sql.database import Database
from fleet.store.sql.rows import insert_absent, text_of
from fleet.store.sql.tables import OUTCOMES


class Ended(NamedTuple):
    """A row of the journal to be. fence: of the attempt that came to the outcome."""

    run_id: RunId
    step_id: StepId
    outcome: Outcome
    fence: Fence


class Outcomes:
    """A row is never changed: whoever comes second is told what stands."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._behind = Behind(db)

    def put(self, run_id: RunId, step_id: StepId, outcome: Outcome, fence: Fence) -> Outcome:
        """Keep the outcome unless the step has one; gives the one that stands, durable on return."""
        return self._db.write(Put(Ended(run_id, step_id, outcome, fence)))

    def put_behind(self, run_id: RunId, step_id: StepId, outcome: str, fence: Fence) -> None:
        """Keep the outcome (as JSON) unless the step has one, without waiting or an answer: for what may run again."""
        self._behind.add({"run_id": run_id, "step_id": step_id, "outcome": outcome, "fence": fence})

    def get(self, run_id: RunId, step_id: StepId) -> Outcome | None:
        return self._db.fetch(lambda connection: _standing(connection, run_id, step_id))

    def pages(self, run_id: RunId, size: int = 500) -> Iterator[list[tuple[StepId, Outcome]]]:
        """All outcomes of a run in the order of their step ids, in lists of up to `size`."""
        query = select(OUTCOMES.c.step_id, OUTCOMES.c.outcome).where(OUTCOMES.c.run_id == run_id)
        query = query.order_by(OUTCOMES.c.step_id).limit(size)
        after = ""
        while True:
            behind = query.where(OUTCOMES.c.step_id > after)
            rows = self._db.fetch(lambda connection, behind=behind: connection.execute(behind).all())  # type: ignore[misc]
            if rows:
                after = rows[-1].step_id
                yield [(row.step_id, Outcome.model_validate_json(row.outcome)) for row in rows]
            if len(rows) < size:
                return

    def count(self, run_id: RunId) -> int:
        query = select(func.count()).select_from(OUTCOMES).where(OUTCOMES.c.run_id == run_id)
        return self._db.fetch(lambda connection: connection.execute(query).scalar_one())


class Put:
    """The work of one put; what can be done outside of the transaction is done when it is made.

    Many in one transaction are one statement; only where a row stood already are they looked up one by one.
    """

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._row = _row(ended)

    def __call__(self, connection: Connection) -> Outcome:
        insert = insert_absent(OUTCOMES, connection)
        if connection.execute(insert, self._row).rowcount == 1:
            return self._ended.outcome
        return self._stands(connection)

    @staticmethod
    def together(connection: Connection, works: "Sequence[Put]") -> list[Outcome]:
        insert = insert_absent(OUTCOMES, connection)
        if connection.execute(insert, [put._row for put in works]).rowcount == len(works):
            return [put._ended.outcome for put in works]
        return [put._stands(connection) for put in works]

    def _stands(self, connection: Connection) -> Outcome:
        standing = _standing(connection, self._ended.run_id, self._ended.step_id)
        return standing or self._ended.outcome


def _row(ended: Ended) -> dict[str, Any]:
    return {
        "run_id": ended.run_id,
        "step_id": ended.step_id,
        "outcome": text_of(ended.outcome),
        "fence": ended.fence,
    }


def _standing(connection: Connection, run_id: RunId, step_id: StepId) -> Outcome | None:
    query = select(OUTCOMES.c.outcome).where(OUTCOMES.c.run_id == run_id, OUTCOMES.c.step_id == step_id)
    text = connection.execute(query).scalar()
    return None if text is None else Outcome.model_validate_json(text)
