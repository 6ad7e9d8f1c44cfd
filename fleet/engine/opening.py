"""Opens a run's live state: what every step of it carries along, its place in the order, and its deadline."""

from fleet.core.events import EventType
from fleet.core.goal import Goal
from fleet.core.ids import RunId
from fleet.core.run import RunContext
from fleet.engine.deps import Deps
from fleet.store.runs import order
from fleet.store.sql.goals import GoalRecord


def context_of(run: str, goal_id: str, goal: Goal, traceparent: str) -> RunContext:
    return RunContext(run=RunId(run), goal=goal_id, tenant=goal.tenant, traceparent=traceparent, labels=goal.labels)


def open_run(
    context: RunContext, goal: Goal, submitted: float, deps: Deps, event: EventType = EventType.ACCEPTED
) -> bool:
    """False when it was open. submitted: seconds since 1970, from which its order and its budget of time count."""
    bounds = [goal.deadline.timestamp()] if goal.deadline else []
    bounds += [submitted + goal.budget.seconds] if goal.budget.seconds else []
    place = order(goal.priority, submitted)
    return deps.live.runs.open(context, place, deadline=min(bounds, default=None), event=event)


def open_recorded(record: GoalRecord, deps: Deps, event: EventType = EventType.ACCEPTED) -> bool:
    """As open_run, of a run that is on record; says which run it goes on from, if it does."""
    context = context_of(record.run_id, record.goal_id, record.goal, record.traceparent)
    opened = open_run(context, record.goal, record.begun.timestamp(), deps, event)
    if opened and record.origin:
        deps.live.runs.note(record.run_id, EventType.TAKEN_OVER, data={"run": record.origin})
    return opened
