"""Redis is emptied while a joiner or planner is at work: what is missing is not taken for what never was."""

import pytest

from fleet.core.ids import StepId
from fleet.core.run import EndReason, RunStatus
from fleet.engine import join, recover
from fleet.engine.deps import Deps
from fleet.engine.holding import Holding
from fleet.store.scripts import EpochLost
from fleet.tools.decorator import tool
from tests.engine.fleetlet import DONE, HERE, a_step, asked, claim, ended, planned, slot_of, with_tools


@tool(effect="reads", breaker=None)
def act() -> int:
    """Nothing much."""
    return 1


def empty(deps: Deps) -> None:
    deps.live.client.delete(*deps.live.client.scan_iter(f"{deps.live.keys.namespace}:*", count=1000))


def test_a_plans_end_is_not_made_of_outcomes_that_redis_has_lost(deps: Deps) -> None:
    """R5, R8: the run would be on record as failed, with no step that failed."""
    run = planned(with_tools(deps, act), a_step())
    attempt = claim(deps)
    deps.record.outcomes.put(run, attempt.step.id, DONE, attempt.fence)
    deps.live.steps.commit(attempt, DONE, HERE, want=False)
    hold = Holding().add(claim(deps))
    empty(deps)
    with pytest.raises(EpochLost):
        join.run(hold, deps)
    recover.ensure_epoch(deps)
    recover.rebuild_missing(deps)
    slot_of(deps).carry(None)
    assert (ended(deps, run).status, ended(deps, run).reason) == (RunStatus.SUCCEEDED, EndReason.FINISHED)


def test_a_planner_is_not_taken_for_lost_because_redis_lost_its_outcome(deps: Deps) -> None:
    """R5, R8."""
    asked(deps)
    deps.live.steps.commit(claim(deps), DONE, HERE, want=False)
    hold = Holding().add(claim(deps))
    assert hold.attempt.step.id == "join.1"
    empty(deps)
    with pytest.raises(EpochLost):
        join.run(hold, deps)


def test_a_run_whose_live_state_was_lost_is_not_taken_for_one_that_is_closed(deps: Deps) -> None:
    """R8: a plan step that adds to it lets go, and puts no cancellation on record."""
    run = planned(deps, a_step())
    empty(deps)
    recover.ensure_epoch(deps)
    with pytest.raises(EpochLost):
        deps.live.runs.add(run, [a_step("b")])
    assert deps.record.outcomes.get(run, StepId("b")) is None
