"""A new run that begins with what another one came to: of the same goal (a retry) or of a new one (a fork)."""

from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import Connection, Table, delete, insert, literal, select

from fleet.core.budget import Usage
from fleet.core.goal import Goal
from fleet.core.ids import GoalId, RunId, StepId
from fleet.core.outcome import Failure, FailureClass
from fleet.core.plan import Plan
from fleet.core.run import RunStatus
from fleet.core.value import Value
from fleet.errors import KeyReused, WrongState
from fleet.store.sql.accept import Draft, Submission
from fleet.store.sql.database import Database
from fleet.store.sql.ledger import FAILED, OPEN
from fleet.store.sql.rows import CHUNK, insert_absent, text_of
from fleet.store.sql.tables import ANSWERS, CALLS, GOALS, NOTED_STEPS, OUTCOMES, PLANS, RUNS


class Call(Value):
    """A call as the ledger has it, without what was said. One that is in doubt counts as open."""

    step: StepId
    ordinal: int
    kind: Literal["model", "tool"]
    state: Literal["open", "done", "failed"]


class Takeover(Value):
    """What a run takes over from `origin`, which must have ended unless the goal is a new one.

    goal: of a fork. plans: its plan versions, all that it begins with. noted: the version up to which it has the steps
    of plans not yet whole. again: steps whose outcomes it does not take over. calls: those of such steps that it does,
    in the state that it has them in. What was used stays with the run that used it.
    """

    origin: RunId
    run_id: RunId
    goal_id: GoalId
    goal: Goal | None = None
    traceparent: str = ""
    plans: tuple[Plan, ...] = ()
    noted: int = 0
    again: frozenset[StepId] = frozenset()
    calls: tuple[Call, ...] = ()


class Takeovers:
    """One transaction each: a process that dies meanwhile leaves all of it or nothing."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def take(self, takeover: Takeover) -> None:
        """Durable on return. Raises WrongState where the goal was retried already, KeyReused."""
        self._db.write(lambda connection: _take(connection, takeover))

    def calls(self, run_id: RunId) -> list[Call]:
        """All calls of a run, by step and ordinal."""
        about = (CALLS.c.step_id, CALLS.c.ordinal, CALLS.c.kind, CALLS.c.state, CALLS.c.failure)
        query = select(*about).where(CALLS.c.run_id == run_id).order_by(CALLS.c.step_id, CALLS.c.ordinal)
        rows = self._db.fetch(lambda connection: connection.execute(query).all())
        return [Call(step=row.step_id, ordinal=row.ordinal, kind=row.kind, state=_state(row)) for row in rows]


def _state(row: Any) -> Any:
    failure = Failure.model_validate_json(row.failure) if row.state == FAILED and row.failure else None
    return OPEN if failure and failure.cls is FailureClass.IN_DOUBT else row.state


def _take(connection: Connection, takeover: Takeover) -> None:
    if connection.execute(select(RUNS.c.run_id).where(RUNS.c.run_id == takeover.run_id)).first():
        return  # this very work was done before, in a transaction whose end was not heard of
    if takeover.goal is None:
        _be_the_newest(connection, takeover)
        tenant = connection.execute(select(RUNS.c.tenant).where(RUNS.c.run_id == takeover.origin)).scalar_one()
    else:
        _new_goal(connection, takeover, takeover.goal)
        tenant = takeover.goal.tenant
    about = {"status": RunStatus.RUNNING.value, "usage": text_of(Usage()), "origin": takeover.origin}
    row = {"run_id": takeover.run_id, "goal_id": takeover.goal_id, "tenant": tenant, **about}
    connection.execute(RUNS.insert(), row)
    _copy_plans(connection, takeover)
    _copy(connection, OUTCOMES, takeover)
    _copy(connection, ANSWERS, takeover)
    _copy_calls(connection, takeover)


def _be_the_newest(connection: Connection, takeover: Takeover) -> None:
    """Of two that retry a goal at once, one does."""
    connection.execute(select(GOALS.c.goal_id).where(GOALS.c.goal_id == takeover.goal_id).with_for_update())
    runs = select(RUNS.c.run_id, RUNS.c.ended).where(RUNS.c.goal_id == takeover.goal_id)
    newest = connection.execute(runs.order_by(RUNS.c.run_id.desc()).limit(1)).one()
    if newest.run_id != takeover.origin or newest.ended is None:
        raise WrongState(f"goal {takeover.goal_id} has not ended: somebody else retries it.")


def _new_goal(connection: Connection, takeover: Takeover, goal: Goal) -> None:
    submission = Submission(
        goal_id=takeover.goal_id, run_id=takeover.run_id, goal=goal, traceparent=takeover.traceparent
    )
    row = Draft.of(submission).goal_row()
    if connection.execute(insert_absent(GOALS, connection), row).rowcount != 1:
        raise KeyReused(f"the key {goal.key!r} was used before: use a new one.")


def _copy_plans(connection: Connection, takeover: Takeover) -> None:
    rows = [{"run_id": takeover.run_id, "version": p.version, "plan": p.model_dump_json()} for p in takeover.plans]
    if rows:
        connection.execute(PLANS.insert(), rows)
    upto = NOTED_STEPS.c.version <= takeover.noted
    connection.execute(_rows_of(NOTED_STEPS, takeover, select(NOTED_STEPS).where(upto)))


def _copy(connection: Connection, table: Table, takeover: Takeover) -> None:
    """All rows of the origin, but those of the steps that are done again."""
    connection.execute(_rows_of(table, takeover, select(table)))
    again = sorted(takeover.again)
    for start in range(0, len(again), CHUNK):
        part = table.c.step_id.in_(again[start : start + CHUNK])
        connection.execute(delete(table).where(table.c.run_id == takeover.run_id, part))


def _rows_of(table: Table, takeover: Takeover, query: Any) -> Any:
    """The origin's rows that a query finds, as rows of the new run."""
    rest = [column for column in table.columns if column.name != "run_id"]
    rows = query.where(table.c.run_id == takeover.origin).with_only_columns(literal(takeover.run_id), *rest)
    return insert(table).from_select(["run_id", *(column.name for column in rest)], rows)


def _copy_calls(connection: Connection, takeover: Takeover) -> None:
    wanted = {(call.step, call.ordinal): call for call in takeover.calls}
    steps: Sequence[StepId] = sorted({call.step for call in takeover.calls})
    nothing = {"calls": 0, "input_tokens": 0, "output_tokens": 0, "money": 0.0, "attempts": 1, "reissues": 0}
    for start in range(0, len(steps), CHUNK):
        part = CALLS.c.step_id.in_(steps[start : start + CHUNK])
        found = connection.execute(select(CALLS).where(CALLS.c.run_id == takeover.origin, part)).mappings().all()
        rows = [
            {**row, **nothing, "run_id": takeover.run_id, "state": wanted[row["step_id"], row["ordinal"]].state}
            for row in found
            if (row["step_id"], row["ordinal"]) in wanted
        ]
        if rows:
            connection.execute(CALLS.insert(), rows)
