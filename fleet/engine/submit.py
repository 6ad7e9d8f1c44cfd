"""Accept goals: on record first, then live, then told. What is accepted is never lost."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from fleet.core.events import EventType
from fleet.core.goal import Goal
from fleet.core.ids import GoalId, RunId
from fleet.core.plan import Plan
from fleet.core.run import RunContext
from fleet.engine import checked, join
from fleet.engine.deps import Deps
from fleet.errors import FleetFault, Overloaded, PlanRejected, StoreUnreachable
from fleet.planning.paths import remaining
from fleet.store.runs import RunClosed, order
from fleet.store.sql.accept import Accepted, Submission

log = logging.getLogger("fleet.submit")


class Handle(NamedTuple):
    """An accepted goal. new: False when its idempotency key was known with the same body."""

    goal_id: str
    run_id: str
    new: bool


def submit(items: Sequence[tuple[Goal, Plan | None]], deps: Deps) -> list[Handle | FleetFault]:
    """Accept goals, each with the plan it is to follow, or None for a planner's. Errors come as items."""
    answers: list[Handle | FleetFault] = [Overloaded("")] * len(items)
    submissions: list[Submission] = []
    places: list[int] = []
    room: dict[str, int] = {}
    for place, (goal, plan) in enumerate(items):
        refused = _unfit(plan) or _no_room(goal, room, deps)
        if refused:
            answers[place] = refused
            continue
        submissions.append(_submission(goal, plan, deps))
        places.append(place)
    accepted = deps.record.goals.accept(submissions)
    for place, submission, answer in zip(places, submissions, accepted, strict=True):
        answers[place] = _handle(answer)
        if isinstance(answer, Accepted) and answer.new:
            _launch(submission, deps)
    return answers


def _unfit(plan: Plan | None) -> PlanRejected | None:
    found = checked.problems(plan) if plan is not None else ()
    return PlanRejected(found, plan.source if plan else "") if found else None


def _no_room(goal: Goal, room: dict[str, int], deps: Deps) -> Overloaded | None:
    """A tenant's open goals are capped: one that would be more is refused with what to do."""
    most = deps.settings.open_goals
    if goal.tenant not in room:
        room[goal.tenant] = most - deps.record.goals.count_open(goal.tenant)
    if room[goal.tenant] <= 0 and not deps.record.goals.knows(goal.tenant, goal.key):
        return Overloaded(
            f"tenant {goal.tenant} has {most} open goals, its limit: wait for some to end, or raise FLEET_OPEN_GOALS"
        )
    room[goal.tenant] -= 1
    return None


def _submission(goal: Goal, plan: Plan | None, deps: Deps) -> Submission:
    followed = goal.model_copy(update={"loop": "plan"}) if plan is not None else goal
    return Submission(
        goal_id=GoalId(f"g{deps.ulid()}".lower()),
        run_id=RunId(f"r{deps.ulid()}".lower()),
        goal=followed,
        plan=plan,
        traceparent=deps.telemetry.new_traceparent(),
    )


def _handle(answer: Accepted | FleetFault) -> Handle | FleetFault:
    return Handle(answer.goal_id, answer.run_id, answer.new) if isinstance(answer, Accepted) else answer


def _launch(submission: Submission, deps: Deps) -> None:
    """The goal is on record: if Redis is away now, the scheduler launches it later."""
    try:
        start(submission.run_id, submission.goal_id, submission.goal, submission.plan, submission.traceparent, deps)
    except StoreUnreachable as away:
        log.warning("accepted, to be started later: %s", away, extra={"goal": submission.goal_id})
    except RunClosed:
        log.info("cancelled before it was started", extra={"goal": submission.goal_id})


def start(run: str, goal_id: str, goal: Goal, plan: Plan | None, traceparent: str, deps: Deps) -> None:
    """Open the run's live state and add its first steps. Safe to do twice."""
    open_run(context_of(run, goal_id, goal, traceparent), goal, deps.clock(), deps)
    if plan is None:
        deps.live.runs.add(run, join.engine_steps(1, deps))
        return
    steps = [*plan.steps, join.joining(1, deps)]
    deps.live.runs.add(run, steps, remaining(plan.steps))


def context_of(run: str, goal_id: str, goal: Goal, traceparent: str) -> RunContext:
    return RunContext(run=RunId(run), goal=goal_id, tenant=goal.tenant, traceparent=traceparent, labels=goal.labels)


def open_run(
    context: RunContext, goal: Goal, submitted: float, deps: Deps, event: EventType = EventType.ACCEPTED
) -> None:
    """submitted: seconds since 1970, from which the run's order and its budget of time count."""
    bounds = [goal.deadline.timestamp()] if goal.deadline else []
    bounds += [submitted + goal.budget.seconds] if goal.budget.seconds else []
    place = order(goal.priority, submitted)
    deps.live.runs.open(context, place, deadline=min(bounds, default=None), event=event)
