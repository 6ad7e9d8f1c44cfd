"""Accept goals: on record first, then live, then told. What is accepted is never lost."""

import logging
from collections.abc import Collection, Sequence
from typing import NamedTuple

from fleet.core.goal import Goal
from fleet.core.ids import GoalId, RunId
from fleet.core.plan import Plan
from fleet.core.run import RunStatus
from fleet.engine import cancel, checked, join, opening, pause
from fleet.engine.deps import Deps
from fleet.errors import FleetFault, Overloaded, PlanRejected, StoreUnreachable, UnknownGoal, WrongState
from fleet.planning.paths import remaining
from fleet.store.runs import RunClosed
from fleet.store.sql.accept import Accepted, Submission

log = logging.getLogger("fleet.submit")


class Handle(NamedTuple):
    """An accepted goal. new: False when its idempotency key was known with the same body.

    launched: False where Redis was away: the goal is on record, and is started once Redis is back.
    """

    goal_id: str
    run_id: str
    new: bool
    launched: bool = True


def submit(items: Sequence[tuple[Goal, Plan | None]], deps: Deps) -> list[Handle | FleetFault]:
    """Accept goals, each with the plan it is to follow, or None for a planner's. Errors come as items."""
    answers: list[Handle | FleetFault] = [Overloaded("")] * len(items)
    submissions: list[Submission] = []
    places: list[int] = []
    room: dict[str, int] = {}
    for place, (goal, plan) in enumerate(items):
        refused = _unfit(plan) or _orphaned(goal, deps) or no_room(goal, room, deps)
        if refused:
            answers[place] = refused
            continue
        submissions.append(_submission(goal, plan, deps))
        places.append(place)
    accepted = deps.record.goals.accept(submissions)
    new = [s for s, a in zip(submissions, accepted, strict=True) if isinstance(a, Accepted) and a.new]
    left = {submission.run_id for submission in _launch(new, deps)}
    for place, answer in zip(places, accepted, strict=True):
        answers[place] = _handle(answer, left)
    return answers


def _unfit(plan: Plan | None) -> PlanRejected | None:
    found = checked.problems(plan) if plan is not None else ()
    return PlanRejected(found, plan.source if plan else "") if found else None


def _orphaned(goal: Goal, deps: Deps) -> FleetFault | None:
    """A child goal is for a parent that is open."""
    if goal.parent is None or deps.record.goals.knows(goal.tenant, goal.key):
        return None
    try:
        parent = deps.record.goals.get(goal.parent)
    except UnknownGoal as unknown:
        return unknown
    if parent.goal.tenant != goal.tenant:
        return UnknownGoal(f"tenant {goal.tenant} has no goal {goal.parent} that could be a parent.")
    if parent.status.ended or parent.status is RunStatus.CANCELLING:
        return WrongState(f"goal {goal.parent} takes no child goals any more: it is {parent.status}.")
    return None


def no_room(goal: Goal, room: dict[str, int], deps: Deps) -> Overloaded | None:
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


def _handle(answer: Accepted | FleetFault, left: Collection[RunId]) -> Handle | FleetFault:
    if not isinstance(answer, Accepted):
        return answer
    return Handle(answer.goal_id, answer.run_id, answer.new, answer.run_id not in left)


def _launch(submissions: Sequence[Submission], deps: Deps) -> Sequence[Submission]:
    """Launch goals that are on record. Gives those that the scheduler launches later, since Redis is away.

    A Redis that hangs makes its caller wait, so that it is asked only once.
    """
    for number, submission in enumerate(submissions):
        try:
            _launch_one(submission, deps)
        except StoreUnreachable as away:
            left = submissions[number:]
            log.warning("goals accepted, to be started later: %d; %s", len(left), away)
            return left
    return ()


def _launch_one(submission: Submission, deps: Deps) -> None:
    try:
        _heed_parent(submission, deps)
        start(submission.run_id, submission.goal_id, submission.goal, submission.plan, submission.traceparent, deps)
    except RunClosed:
        log.info("cancelled before it was started", extra={"goal": submission.goal_id})


def _heed_parent(submission: Submission, deps: Deps) -> None:
    """Whoever pauses or cancels a goal does so on record, then looks for children; a child that came since looks up."""
    if submission.goal.parent is None:
        return
    status = deps.record.goals.get(submission.goal.parent).status
    if status in (RunStatus.CANCELLING, RunStatus.CANCELLED):
        cancel.cancel(submission.run_id, deps)
    elif status is RunStatus.PAUSED:
        pause.pause(submission.run_id, deps)


def start(run: str, goal_id: str, goal: Goal, plan: Plan | None, traceparent: str, deps: Deps) -> None:
    """Open the run's live state and add its first steps. Safe to do twice."""
    opening.open_run(opening.context_of(run, goal_id, goal, traceparent), goal, deps.clock(), deps)
    if plan is None:
        deps.live.runs.add(run, join.engine_steps(1, deps))
        return
    steps = [*plan.steps, join.joining(1, deps)]
    deps.live.runs.add(run, steps, remaining(plan.steps))
