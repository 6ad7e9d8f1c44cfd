"""What a check of runs asks of the record beyond what the engine reads: who wrote an outcome, when a call closed."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Text, select

from fleet.core.budget import Usage
from fleet.core.ids import Fence, RunId, StepId
from fleet.store.sql.record import Record
from fleet.store.sql.tables import ANSWERS, CALLS, DEAD_LETTERS, GOALS, NOTED_STEPS, OUTCOMES, PLANS, RUNS

TEXTS = (RUNS, PLANS, NOTED_STEPS, OUTCOMES, CALLS, DEAD_LETTERS, ANSWERS)
"""Tables with rows of a run, in which free text may stand. Events are read apart."""


class Closed(NamedTuple):
    """A call of a run: what it used, and when it was closed, by the database's clock (None: it is open)."""

    used: Usage
    at: datetime | None


def runs(record: Record) -> list[RunId]:
    """All runs, in the order of their ids."""
    query = select(RUNS.c.run_id).order_by(RUNS.c.run_id)
    return record.db.fetch(lambda connection: list(connection.execute(query).scalars()))


def fences(record: Record, run: RunId) -> dict[StepId, Fence]:
    """The fence of the attempt that wrote the outcome, of each step that has one."""
    query = select(OUTCOMES.c.step_id, OUTCOMES.c.fence).where(OUTCOMES.c.run_id == run)
    return record.db.fetch(lambda connection: {row.step_id: row.fence for row in connection.execute(query)})


def closed(record: Record, run: RunId) -> list[Closed]:
    """Every call of a run."""
    query = select(CALLS).where(CALLS.c.run_id == run)
    rows = record.db.fetch(lambda connection: connection.execute(query).all())
    return [
        Closed(
            Usage(calls=r.calls, input_tokens=r.input_tokens, output_tokens=r.output_tokens, money=r.money), r.closed
        )
        for r in rows
    ]


def texts(record: Record, run: RunId) -> Iterator[tuple[str, str, str]]:
    """Everything on record about a run, as text: (table, step or empty, text)."""
    for table in TEXTS:
        columns = [column for column in table.c if isinstance(column.type, Text)]
        step = [table.c.step_id] if "step_id" in table.c else []
        query = select(*step, *columns).where(table.c.run_id == run)
        for row in record.db.fetch(lambda connection, query=query: connection.execute(query).all()):  # type: ignore[misc]
            about, *found = [*row] if step else ["", *row]
            yield table.name, about, "\n".join(text for text in found if text)
    goal = select(GOALS.c.goal).join(RUNS, RUNS.c.goal_id == GOALS.c.goal_id).where(RUNS.c.run_id == run)
    yield "goals", "", record.db.fetch(lambda connection: connection.execute(goal).scalar_one())
