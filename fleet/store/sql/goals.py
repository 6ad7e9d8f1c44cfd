"""Goals and their runs, as they were accepted and as they ended."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, bindparam, exists, func, or_, select, update

from fleet.core.budget import Usage
from fleet.core.goal import Goal
from fleet.core.ids import GoalId, RunId
from fleet.core.run import End, RunStatus
from fleet.core.value import Value
from fleet.errors import BadInput, KeyReused, UnknownGoal
from fleet.store.sql import accept
from fleet.store.sql.accept import Accepted, Submission, known_keys
from fleet.store.sql.database import Database
from fleet.store.sql.rows import CHUNK, no_run, text_of
from fleet.store.sql.tables import GOALS, RUNS, clock

__all__ = ["Accepted", "GoalRecord", "Goals", "Submission"]

SHOWN = 5
"""Ids that an ambiguous prefix is answered with."""
LAST = "\U0010ffff"
"""Sorts behind every id that begins alike."""


class GoalRecord(Value):
    """A goal with its newest run. end, ended: None while the run is open; usage: what it used, once it has ended.

    created: when the goal was; begun: when the run was. origin: the run that it took outcomes over from.
    """

    goal_id: GoalId
    run_id: RunId
    goal: Goal
    status: RunStatus
    end: End | None = None
    usage: Usage = Usage()
    created: datetime
    begun: datetime
    origin: RunId | None = None
    ended: datetime | None = None
    traceparent: str = ""


Records = list[GoalRecord]
OpenRuns = list[tuple[RunId, GoalId]]


class Goals:
    """Every method raises StoreUnreachable when the database stays away."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def accept(self, submissions: Sequence[Submission]) -> "list[Accepted | KeyReused]":
        """Accept all in one transaction, durable on return; the answers are in the order of the submissions.

        The same key of a tenant with the same body gives the ids that stand, with new=False; with another body it
        gives KeyReused, as an item.
        """
        return accept.accept(self._db, submissions)

    def knows(self, tenant: str, key: str | None) -> bool:
        """Whether the idempotency key was used before by the tenant."""
        return key is not None and bool(known_keys(self._db, [(tenant, key)]))

    def get(self, goal_id: GoalId) -> GoalRecord:
        """Raises UnknownGoal."""
        return self._one(_BY_GOAL, goal_id, UnknownGoal(f"there is no goal {goal_id}: see `fleet goals`."))

    def of_run(self, run_id: RunId) -> GoalRecord:
        """The goal that a run pursues, with that run. Raises UnknownGoal."""
        return self._one(_BY_RUN, run_id, no_run(run_id))

    def open_runs(self, after: RunId | None = None, limit: int = 500) -> OpenRuns:
        """Runs that have not ended, in the order of their ids, from behind `after`."""
        query = select(RUNS.c.run_id, RUNS.c.goal_id).where(RUNS.c.ended.is_(None))
        if after is not None:
            query = query.where(RUNS.c.run_id > after)
        query = query.order_by(RUNS.c.run_id).limit(limit)
        return self._db.fetch(lambda connection: [(row.run_id, row.goal_id) for row in connection.execute(query)])

    def open_in(self, status: RunStatus) -> "set[RunId]":
        """The open runs of that status."""
        query = select(RUNS.c.run_id).where(RUNS.c.ended.is_(None), RUNS.c.status == status)
        return self._db.fetch(lambda connection: {RunId(run) for run in connection.execute(query).scalars()})

    def count_open(self, tenant: str) -> int:
        return self._db.fetch(lambda connection: connection.execute(_OPEN_OF, {"tenant": tenant}).scalar_one())

    def find(self, prefix: str) -> GoalId:
        """The goal whose id, or whose run's id, begins with `prefix`, in capitals or as written.

        Raises UnknownGoal for none, and BadInput, with the first of them, for several.
        """
        query = select(GOALS.c.goal_id).join(RUNS, RUNS.c.goal_id == GOALS.c.goal_id).distinct()
        starts = [_starts(column, text) for column in (GOALS.c.goal_id, RUNS.c.run_id) for text in _spelt(prefix)]
        query = query.where(or_(*starts)).order_by(GOALS.c.goal_id).limit(SHOWN + 1)
        found = self._db.fetch(lambda connection: list(connection.execute(query).scalars()))
        if not prefix or not found:
            raise UnknownGoal(f"there is no goal whose id begins with {prefix!r}: see `fleet goals`.")
        whole = [goal_id for goal_id in found if goal_id in _spelt(prefix)]
        if len(found) > 1 and not whole:
            shown = ", ".join(found[:SHOWN]) + (", ..." if len(found) > SHOWN else "")
            raise BadInput(f"several goals begin with {prefix!r}: {shown}: type more of the id.")
        return GoalId((whole or found)[0])

    def set_status(self, run_id: RunId, status: RunStatus) -> RunStatus:
        """Set the status of an open run; gives the status that stands. Raises UnknownGoal.

        A run that has ended stays as it ended, one that is being cancelled stays so until it ends, and one that is
        paused until it goes on, by `unpause`, or is cancelled.
        """
        if status.ended:
            raise ValueError("a run is ended by `end`")
        moved = [RunStatus.RUNNING, RunStatus.ASKING, status]
        return self._moved(run_id, [*moved, RunStatus.PAUSED] if status is RunStatus.CANCELLING else moved, status)

    def unpause(self, run_id: RunId, status: RunStatus) -> RunStatus:
        """Set the status (running or asking) of a paused run; gives the status that stands. Raises UnknownGoal."""
        return self._moved(run_id, [RunStatus.PAUSED], status)

    def _moved(self, run_id: RunId, before: Sequence[RunStatus], status: RunStatus) -> RunStatus:
        change = update(RUNS).where(RUNS.c.run_id == run_id, RUNS.c.ended.is_(None), RUNS.c.status.in_(before))

        def work(connection: Connection) -> RunStatus:
            connection.execute(change.values(status=status))
            return RunStatus(_run(connection, run_id).status)

        return self._db.write(work)

    def below(self, goal_id: GoalId) -> OpenRuns:
        """Open runs of the goals that have this one as their parent, and of those below them; the nearest first."""
        found: OpenRuns = []
        level, seen = [goal_id], {goal_id}
        while level:
            rows = self._db.fetch(lambda connection, level=level: _children(connection, level))  # type: ignore[misc]
            found += [(row.run_id, row.goal_id) for row in rows if row.ended is None]
            level = list({row.goal_id: None for row in rows if row.goal_id not in seen})
            seen.update(level)
        return found

    def end(self, run_id: RunId, end: End, usage: Usage) -> End:
        """End a run, once: gives the end that stands, which is the first one's. Raises UnknownGoal."""
        if not end.status.ended:
            raise ValueError(f"{end.status} is no end")
        about = {"ended_run": run_id, "status": end.status, "end": text_of(end), "usage": text_of(usage)}

        def work(connection: Connection) -> End:
            changed = connection.execute(_END, about).rowcount
            return end if changed else End.model_validate_json(_run(connection, run_id).end)

        return self._db.write(work)

    def list(
        self,
        status: RunStatus | None = None,
        tenant: str | None = None,
        limit: int = 100,
        after: GoalId | None = None,
    ) -> Records:
        """Goals, each with its newest run, newest first, from behind (older than) `after`."""
        query = _records().where(~_LATER)
        if tenant is not None:
            query = query.where(RUNS.c.tenant == tenant)
        if status is not None:
            query = query.where(RUNS.c.status == status)
        if after is not None:
            query = query.where(GOALS.c.goal_id < after)
        query = query.order_by(GOALS.c.goal_id.desc(), RUNS.c.run_id.desc()).limit(limit)
        return self._db.fetch(lambda connection: [_record(row) for row in connection.execute(query)])

    def _one(self, query: Select[Any], of: str, missing: UnknownGoal) -> GoalRecord:
        row = self._db.fetch(lambda connection: connection.execute(query, {"of": of}).first())
        if row is None:
            raise missing
        return _record(row)


def _records() -> Select[Any]:
    goal = (GOALS.c.goal_id, GOALS.c.goal, GOALS.c.traceparent, GOALS.c.created)
    run = (RUNS.c.run_id, RUNS.c.status, RUNS.c.end, RUNS.c.usage, RUNS.c.ended, RUNS.c.origin)
    begun = RUNS.c.created.label("begun")
    return select(*goal, *run, begun).join(RUNS, RUNS.c.goal_id == GOALS.c.goal_id)


_OTHERS = RUNS.alias()
_LATER = exists().where(_OTHERS.c.goal_id == RUNS.c.goal_id, _OTHERS.c.run_id > RUNS.c.run_id)
"""Whether a goal has a newer run than this one."""

# Statements that each goal needs are built once: building one takes as long as running it.
_NEWEST = _records().order_by(RUNS.c.run_id.desc()).limit(1)
_BY_GOAL = _NEWEST.where(GOALS.c.goal_id == bindparam("of"))
_BY_RUN = _NEWEST.where(RUNS.c.run_id == bindparam("of"))
_OPEN_OF = select(func.count()).select_from(RUNS).where(RUNS.c.ended.is_(None), RUNS.c.tenant == bindparam("tenant"))
_RUN = select(RUNS.c.status, RUNS.c.end).where(RUNS.c.run_id == bindparam("of"))
_END = update(RUNS).where(RUNS.c.run_id == bindparam("ended_run"), RUNS.c.ended.is_(None)).values(ended=clock())


def _record(row: Row[Any]) -> GoalRecord:
    return GoalRecord(
        goal_id=row.goal_id,
        run_id=row.run_id,
        goal=Goal.model_validate_json(row.goal),
        status=RunStatus(row.status),
        end=End.model_validate_json(row.end) if row.end else None,
        usage=Usage.model_validate_json(row.usage),
        created=row.created,
        begun=row.begun,
        origin=row.origin,
        ended=row.ended,
        traceparent=row.traceparent,
    )


def _children(connection: Connection, parents: Sequence[GoalId]) -> "list[Any]":
    query = select(GOALS.c.goal_id, RUNS.c.run_id, RUNS.c.ended).join(RUNS, RUNS.c.goal_id == GOALS.c.goal_id)
    chunks = (parents[start : start + CHUNK] for start in range(0, len(parents), CHUNK))
    return [row for chunk in chunks for row in connection.execute(query.where(GOALS.c.parent.in_(chunk)))]


def _run(connection: Connection, run_id: RunId) -> Any:
    row = connection.execute(_RUN, {"of": run_id}).first()
    if row is None:
        raise no_run(run_id)
    return row


def _spelt(prefix: str) -> tuple[str, str]:
    return prefix, prefix.upper()


def _starts(column: ColumnElement[str], prefix: str) -> ColumnElement[bool]:
    """By a range, which uses the index on both databases, and holds no pattern to escape."""
    return and_(column >= prefix, column < prefix + LAST)
