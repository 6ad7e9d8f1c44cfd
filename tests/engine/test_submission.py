"""What is accepted, what is refused, and what is left to its producer."""

import time

import pytest
from ulid import ULID

from fleet.core.goal import Goal
from fleet.core.run import EndReason
from fleet.engine import cancel, recover, submit
from fleet.engine.deps import Deps
from fleet.engine.submit import Handle
from fleet.errors import Overloaded
from tests.engine.fleetlet import DONE, HERE, a_step, asked, claim, planned


def test_a_known_key_is_answered_even_when_its_tenant_is_full(deps: Deps) -> None:
    """R20, R35: the cap is for new goals, and says what to do; the same key gives the same goal."""
    deps.settings = deps.settings.model_copy(update={"open_goals": 1})
    goal = Goal(objective="once", key="k")
    (first,) = submit.submit([(goal, None)], deps)
    again, other = submit.submit([(goal, None), (Goal(objective="another"), None)], deps)
    assert isinstance(first, Handle)
    assert isinstance(again, Handle)
    assert (again.goal_id, again.new) == (first.goal_id, False)
    assert isinstance(other, Overloaded)
    assert "FLEET_OPEN_GOALS" in str(other)


def test_a_run_that_its_producer_is_still_launching_is_left_to_it(deps: Deps) -> None:
    """R5: after a while, or in a new epoch, it is rebuilt."""
    run = asked(deps)
    deps.live.client.delete(*deps.live.client.keys(f"{deps.live.keys.namespace}:run:*"))
    assert recover.rebuild_missing(deps, young=False) == 0
    late = deps.clock() + recover.LAUNCH + 1
    deps.clock = lambda: late
    assert recover.rebuild_missing(deps, young=False) == 1
    assert deps.live.runs.about(run)["status"] == "running"


@pytest.mark.parametrize("hours", [2, -2])
def test_a_run_whose_producers_clock_is_off_is_rebuilt_all_the_same(deps: Deps, hours: int) -> None:
    """R5: it was accepted hours from now, or hours ago, and nobody launched it."""
    deps.ulid = lambda: ULID.from_timestamp(time.time() + hours * 3600)
    run = asked(deps)
    deps.live.client.delete(*deps.live.client.keys(f"{deps.live.keys.namespace}:run:*"))
    assert recover.rebuild_missing(deps, young=False) == 1
    assert deps.live.runs.about(run)["status"] == "running"


def test_a_run_that_its_deadline_ends_gives_what_it_has(deps: Deps) -> None:
    """R14: the end names its reason and carries the best partial result."""
    run = planned(deps, a_step("a"), a_step("b", needs=("a",)))
    deps.live.steps.commit(claim(deps), DONE, HERE, want=False)
    cancel.cancel(run, deps, EndReason.DEADLINE)
    end = deps.record.goals.of_run(run).end
    assert end is not None
    assert (end.reason, end.answer) == (EndReason.DEADLINE, {"a": 1})


def test_filed_events_are_those_of_the_stream(deps: Deps) -> None:
    """R34: what is filed without a look into it reads back as what was streamed."""
    run = planned(deps, a_step("a"))
    deps.live.steps.commit(claim(deps), DONE, HERE, want=False)
    streamed = deps.live.streams.read(run)
    deps.record.events.file(run, deps.live.streams.raw(run))
    assert deps.record.events.read(run) == streamed
