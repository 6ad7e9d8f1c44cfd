"""Pause, resume and cancel, on record and live: children included, and whatever dies half-way."""

from collections.abc import Callable

import pytest
from fleet._apps.scheduler.main import Scheduler

from fleet.core.attempt import Attempt
from fleet.core.budget import Budget
from fleet.core.events import Event, EventType
from fleet.core.goal import Goal
from fleet.core.ids import Fence, GoalId, RunId, StepId
from fleet.core.plan import Plan, Step
from fleet.core.run import End, EndReason, RunStatus
from fleet.engine import answers, cancel, opening, pause, recover, submit, sweep
from fleet.engine import finish as finishing
from fleet.engine.deps import Deps
from fleet.engine.submit import Handle
from fleet.errors import WrongState
from fleet.store.steps import Held
from tests.engine.fleetlet import DONE, HERE, a_step, asked, claim, ended, planned

MANY = 1000
IN_FLIGHT = 50


def child_of(deps: Deps, parent: RunId, *steps: Step) -> RunId:
    goal = Goal(objective="a part", parent=deps.record.goals.of_run(parent).goal_id)
    (handle,) = submit.submit([(goal, Plan(steps=steps or (a_step(),)))], deps)
    assert isinstance(handle, Handle)
    return RunId(handle.run_id)


def status(deps: Deps, run: RunId) -> RunStatus:
    return deps.record.goals.of_run(run).status


def idle(deps: Deps) -> bool:
    return deps.live.steps.claim(HERE)[0] is None


def lose_redis(deps: Deps) -> None:
    deps.live.client.delete(*deps.live.client.scan_iter(f"{deps.live.keys.namespace}:*", count=1000))


def finish(deps: Deps) -> str:
    attempt = claim(deps)
    deps.record.outcomes.put(attempt.context.run, attempt.step.id, DONE, attempt.fence)
    deps.live.steps.commit(attempt, DONE, HERE, want=False)
    return attempt.step.id


def test_a_paused_goal_starts_nothing_and_goes_on_where_it_stood(deps: Deps) -> None:
    """R22, R23: what ran meanwhile counts; pausing and resuming twice is as once."""
    run = planned(deps, a_step("a"), a_step("b", needs=("a",)))
    running = claim(deps)
    assert pause.pause(run, deps) is RunStatus.PAUSED
    assert pause.pause(run, deps) is RunStatus.PAUSED
    deps.live.steps.commit(running, DONE, HERE, want=False)
    assert idle(deps)
    assert pause.resume(run, deps) is RunStatus.RUNNING
    assert pause.resume(run, deps) is RunStatus.RUNNING
    assert finish(deps) == "b"


def test_a_pause_survives_a_redis_that_lost_everything(deps: Deps) -> None:
    """R8, R23: what is rebuilt is held before it could start; what is on record is not done again."""
    run = planned(deps, a_step("a"), a_step("b", needs=("a",)))
    finish(deps)
    pause.pause(run, deps)
    lose_redis(deps)
    Scheduler(deps).tick()
    assert deps.live.runs.states(run)[StepId("b")].state == "held"
    assert idle(deps)
    assert pause.resume(run, deps) is RunStatus.RUNNING
    assert finish(deps) == "b"


def on_record_only(run: RunId, deps: Deps) -> None:
    deps.record.goals.set_status(run, RunStatus.PAUSED)


def live_only(run: RunId, deps: Deps) -> None:
    pause.pause(run, deps)
    deps.record.goals.unpause(run, RunStatus.RUNNING)


@pytest.mark.parametrize(("dies", "held"), [(on_record_only, True), (live_only, False)])
def test_a_process_that_dies_between_record_and_live_state_leaves_it_to_the_scheduler(
    deps: Deps, dies: Callable[[RunId, Deps], None], held: bool
) -> None:
    """R23: what is on record is what was asked for."""
    run = planned(deps, a_step())
    child = child_of(deps, run)
    if not held:
        pause.pause(child, deps)
    dies(run, deps)
    recover.go_on(deps)
    assert idle(deps) is held
    for each in (run, child):
        assert deps.live.runs.about(each)["status"] == ("paused" if held else "running")
        assert status(deps, each) is (RunStatus.PAUSED if held else RunStatus.RUNNING)


def test_a_goal_that_is_paused_before_it_is_launched_is_launched_held(deps: Deps) -> None:
    """R22: also where its producer is just about to launch it."""
    run = planned(deps, a_step())
    record = deps.record.goals.of_run(run)
    lose_redis(deps)
    recover.ensure_epoch(deps)
    assert pause.pause(run, deps) is RunStatus.PAUSED
    submit.start(run, record.goal_id, record.goal, deps.record.plans.all(run)[0], "", deps)
    assert idle(deps)
    assert deps.live.runs.states(run)[StepId("a")].state == "held"


def test_a_goal_that_is_cancelled_before_it_is_launched_starts_nothing(deps: Deps) -> None:
    """R22."""
    run = planned(deps, a_step())
    record = deps.record.goals.of_run(run)
    lose_redis(deps)
    recover.ensure_epoch(deps)
    assert cancel.cancel(run, deps) is RunStatus.CANCELLED
    with pytest.raises(Exception, match="takes no more steps"):
        submit.start(run, record.goal_id, record.goal, deps.record.plans.all(run)[0], "", deps)
    assert idle(deps)


def test_deadlines_of_a_paused_goal_go_on(deps: Deps) -> None:
    """R23: a pause is no way to keep a goal for ever."""
    goal = Goal(objective="soon", budget=Budget(seconds=0.001))
    (handle,) = submit.submit([(goal, Plan(steps=(a_step(),)))], deps)
    assert isinstance(handle, Handle)
    run = RunId(handle.run_id)
    pause.pause(run, deps)
    while not deps.record.goals.of_run(run).end:
        sweep.sweep(deps)
    assert ended(deps, run).reason is EndReason.DEADLINE


def test_a_question_may_be_answered_while_its_goal_is_paused(deps: Deps) -> None:
    """R21, R23: the round that follows is held until the goal goes on."""
    run = asked(deps)
    finish(deps)
    joining = claim(deps)
    answers.ask(run, joining.step.id, "which one?", deps)
    deps.live.steps.commit(joining, DONE, HERE, want=False)
    assert pause.pause(run, deps) is RunStatus.PAUSED
    assert pause.resume(run, deps) is RunStatus.ASKING
    pause.pause(run, deps)
    answers.answer(run, "this one", "someone", deps)
    assert status(deps, run) is RunStatus.PAUSED
    assert idle(deps)
    assert pause.resume(run, deps) is RunStatus.RUNNING
    assert claim(deps).step.id == "plan.2"


def test_a_joiner_that_asks_while_its_goal_is_paused_does_not_let_it_go(deps: Deps) -> None:
    """R21, R23."""
    run = asked(deps)
    finish(deps)
    joining = claim(deps)
    pause.pause(run, deps)
    answers.ask(run, joining.step.id, "which one?", deps)
    deps.live.steps.commit(joining, DONE, HERE, want=False)
    assert status(deps, run) is RunStatus.PAUSED
    assert pause.resume(run, deps) is RunStatus.ASKING


def test_a_goal_that_is_cancelled_while_it_is_paused_is_cancelled(deps: Deps) -> None:
    """R22."""
    run = planned(deps, a_step())
    pause.pause(run, deps)
    assert cancel.cancel(run, deps) is RunStatus.CANCELLED
    assert pause.resume(run, deps) is RunStatus.CANCELLED
    assert pause.pause(run, deps) is RunStatus.CANCELLED
    assert ended(deps, run).reason is EndReason.CANCELLED


def test_child_goals_are_paused_and_go_on_with_their_parent(deps: Deps) -> None:
    """R22, R23: at any depth, also below one that has ended; and one that comes while its parent is paused waits."""
    parent = planned(deps, a_step())
    child = child_of(deps, parent)
    grandchild = child_of(deps, child)
    cancel_only(child, deps)
    pause.pause(parent, deps)
    late = child_of(deps, parent)
    assert [status(deps, run) for run in (parent, grandchild, late)] == [RunStatus.PAUSED] * 3
    assert idle(deps)
    pause.resume(parent, deps)
    assert {claim(deps).context.run for _ in range(3)} == {parent, grandchild, late}


def cancel_only(run: RunId, deps: Deps) -> None:
    """End a run and leave what is below it, as it would have ended by itself."""
    deps.live.runs.cancel(run)
    end = End(status=RunStatus.CANCELLED, reason=EndReason.CANCELLED)
    deps.live.runs.end(run, finishing.on_record(run, end, deps))


def test_cancelled_is_said_when_nothing_of_the_goal_or_its_children_runs(deps: Deps) -> None:
    """R22."""
    parent = planned(deps, a_step())
    child = child_of(deps, parent)
    running = next(attempt for attempt in (claim(deps), claim(deps)) if attempt.context.run == child)
    deps.live.steps.park(claimed_of(deps, parent), 0.0, "back", HERE, want=False)
    assert cancel.cancel(parent, deps) is RunStatus.CANCELLING
    assert idle(deps)
    sweep.sweep(deps)
    assert status(deps, parent) is RunStatus.CANCELLING
    assert deps.live.steps.renew(HERE, 4, 60, [held_of(running)])
    deps.live.steps.commit(running, DONE, HERE, want=False)
    sweep.sweep(deps)
    sweep.sweep(deps)
    assert ended(deps, child).status is RunStatus.CANCELLED
    assert ended(deps, parent).status is RunStatus.CANCELLED


def claimed_of(deps: Deps, run: RunId) -> Attempt:
    """The attempt of a run's step `a` that was claimed first."""
    record = deps.record.goals.of_run(run)
    context = opening.context_of(run, record.goal_id, record.goal, "")
    return Attempt(context=context, step=a_step(), fence=Fence(f"{deps.live.epoch()}.1"), number=1)


def held_of(attempt: Attempt) -> Held:
    return Held(attempt.context.run, attempt.step.id, attempt.fence, "main")


def test_no_child_goal_is_taken_once_its_parent_is_being_cancelled(deps: Deps) -> None:
    """R22: nor one that was accepted in the same moment; nor one of a parent that there is not."""
    parent = planned(deps, a_step())
    running = claim(deps)
    goal_id = deps.record.goals.of_run(parent).goal_id
    cancel.cancel(parent, deps)
    refused, unknown = submit.submit(
        [(Goal(objective="late", parent=parent_id), None) for parent_id in (goal_id, GoalId("g0"))], deps
    )
    assert isinstance(refused, WrongState)
    assert not isinstance(unknown, Handle)
    deps.live.steps.commit(running, DONE, HERE, want=False)


def test_a_cancellation_that_died_before_its_children_is_finished(deps: Deps) -> None:
    """R22."""
    parent = planned(deps, a_step())
    child = child_of(deps, parent)
    deps.record.goals.set_status(parent, RunStatus.CANCELLING)
    recover.go_on(deps)
    assert [ended(deps, run).status for run in (child, parent)] == [RunStatus.CANCELLED] * 2
    assert idle(deps)


def test_a_thousand_steps_in_flight_and_ready_are_cancelled_and_none_starts(deps: Deps) -> None:
    """R22: those that run are told so, and `cancelled` is said when the last has stopped."""
    run = planned(deps, *(a_step(f"s{i}") for i in range(MANY)))
    running = [claim(deps) for _ in range(IN_FLIGHT)]
    assert cancel.cancel(run, deps) is RunStatus.CANCELLING
    assert idle(deps)
    told = deps.live.steps.renew(HERE, 4, 60, [held_of(attempt) for attempt in running])
    assert set(told.values()) == {"CANCELLED"}
    assert len(told) == IN_FLIGHT
    for attempt in running[:-1]:
        assert not deps.live.steps.commit(attempt, DONE, HERE).closed
    assert status(deps, run) is RunStatus.CANCELLING
    assert deps.live.steps.commit(running[-1], DONE, HERE).closed
    sweep.sweep(deps)
    assert ended(deps, run).status is RunStatus.CANCELLED
    started = [e for e in events(deps, run) if e.type is EventType.STEP_STARTED]
    assert len(started) == IN_FLIGHT


def events(deps: Deps, run: RunId) -> list[Event]:
    return deps.live.streams.read(run, limit=10 * MANY)
