"""A paused run in Redis: nothing of it is claimed, nothing is lost, and it is in nobody's way."""

import time

import pytest

from fleet.core.ids import RunId, StepId, join_step
from fleet.core.plan import BestEffort, Step
from fleet.core.run import RunContext
from fleet.store.live import Live
from fleet.store.runs import order
from fleet.store.steps import Answer, Place
from tests.store.test_steps import DONE, PLACE, RUN, claim, finish, opened, states, step

MANY = 10_000
OTHER = RunId("r2")


def ready(live: Live) -> int:
    return int(live.client.zcard(live.keys.ready("main")))


def released(live: Live) -> bool:
    return live.pauses.release(RUN, "running", live.pauses.number(RUN))


def test_a_paused_run_gives_no_step_and_keeps_what_its_running_ones_came_to(live: Live) -> None:
    """R22, R23: what they make ready is held, and starts when the run goes on."""
    opened(live, step("a"), step("b"), step("c", "a"), step("join.1"))
    running = claim(live)
    assert live.pauses.hold(RUN)
    assert live.steps.claim(PLACE)[0] is None
    assert live.steps.commit(running, DONE, PLACE).attempt is None
    assert states(live) == {"a": "succeeded", "b": "held", "c": "held", "join.1": "joining"}
    assert released(live)
    assert [finish(live) for _ in range(3)] == ["b", "c", "join.1"]


@pytest.mark.parametrize("what", ["lost", "parked", "handed back", "late"])
def test_whatever_makes_a_step_ready_meanwhile_leaves_it_held(live: Live, what: str) -> None:
    """R23: a lost worker, a backoff that is over, a worker that stops, a best-effort join whose time has come."""
    steps = [step("a")] if what != "late" else [step("a"), step("b", "a", join=BestEffort(within=0.001))]
    opened(live, *steps)
    attempt = claim(live, Place("w1", "main", 0.0 if what == "lost" else 15.0))
    assert live.pauses.hold(RUN)
    if what == "lost":
        assert live.steps.reap("main", losses=3)[0] == 1
    elif what != "late":
        live.steps.park(attempt, 0.001 if what == "parked" else 0.0, "later", PLACE, want=False)
    until = time.monotonic() + 5
    while states(live)[steps[-1].id] != "held" and time.monotonic() < until:
        live.steps.due()
    assert states(live)[steps[-1].id] == "held"
    assert live.steps.claim(PLACE)[0] is None
    assert released(live)
    assert claim(live).step.id == steps[-1].id


def test_a_pause_that_died_before_it_took_out_what_was_ready_holds_all_the_same(live: Live) -> None:
    """R23: what a claim met and threw away is put back with the rest."""
    opened(live, step("a"), step("b"))
    live.steps._scripts.call("pause", RUN)
    assert ready(live) == 2
    assert live.steps.claim(PLACE)[0] is None
    assert ready(live) == 0
    assert released(live)
    assert {claim(live).step.id, claim(live).step.id} == {"a", "b"}


def test_what_died_half_way_is_carried_out_by_the_sweeper(live: Live) -> None:
    """R23: a pause first, then a resume, each of which died before its first page."""
    opened(live, step("a"))
    live.steps._scripts.call("pause", RUN)
    assert live.pauses.shifting() == [RUN]
    live.pauses.go_on(RUN)
    assert (states(live)["a"], live.pauses.shifting()) == ("held", [])
    live.steps._scripts.call("resume", RUN, "running", live.pauses.number(RUN))
    assert live.steps.claim(PLACE)[0] is None
    live.pauses.go_on(RUN)
    assert claim(live).step.id == "a"
    assert live.pauses.shifting() == live.pauses.paused() == []


def test_a_resume_that_was_decided_before_a_later_pause_is_refused(live: Live) -> None:
    """R22: whoever was told that the run is paused is right."""
    opened(live, step("a"))
    live.pauses.hold(RUN)
    decided = live.pauses.number(RUN)
    live.pauses.hold(RUN)
    assert not live.pauses.release(RUN, "running", decided)
    assert live.steps.claim(PLACE)[0] is None


def test_pausing_twice_and_resuming_twice_is_pausing_and_resuming_once(live: Live) -> None:
    """R23."""
    opened(live, step("a"))
    assert live.pauses.hold(RUN)
    assert live.pauses.hold(RUN)
    assert released(live)
    assert not released(live)
    assert claim(live).step.id == "a"
    kinds = [event.type.value for event in live.streams.read(RUN)]
    assert (kinds.count("run.paused"), kinds.count("run.resumed")) == (1, 1)


def test_a_paused_run_that_is_cancelled_leaves_nothing_held(live: Live) -> None:
    """R22: and no set speaks of it."""
    opened(live, step("a"), step("b", "a"), step("join.1"))
    live.pauses.hold(RUN)
    assert live.runs.cancel(RUN) == 0
    assert set(states(live).values()) == {"cancelled"}
    assert live.pauses.paused() == live.pauses.shifting() == []
    assert live.pauses.hold(RUN) is False


def test_a_run_that_asks_goes_on_as_one_that_asks(live: Live) -> None:
    """R23: an event meanwhile does not let it go."""
    opened(live, step("a"))
    live.pauses.hold(RUN)
    live.runs.note(RUN, "run.asked", status="asking")
    assert live.runs.about(RUN)["status"] == "paused"
    assert live.pauses.release(RUN, "asking", live.pauses.number(RUN))
    assert live.runs.about(RUN)["status"] == "asking"


def test_a_paused_run_of_ten_thousand_ready_steps_is_in_nobodys_way(live: Live) -> None:
    """R23: another run's step is claimed at the first try, no script takes long, and every step is there afterwards."""
    opened(live, *(step(f"s{i}") for i in range(MANY)), Step(id=join_step(1), kind="join"))
    assert ready(live) == MANY
    live.runs.open(RunContext(run=OTHER, goal="g2", tenant="default"), order(0, time.time()))
    live.runs.add(OTHER, [step("x")])
    live.client.config_resetstat()
    assert live.pauses.hold(RUN)
    assert ready(live) == 1
    attempt = claim(live)
    assert (attempt.context.run, attempt.step.id) == (OTHER, StepId("x"))
    assert live.steps.commit(attempt, DONE, PLACE, want=False).answer is Answer.COMMITTED
    assert released(live)
    assert ready(live) == MANY
    calls = live.client.info("commandstats")["cmdstat_fcall"]
    assert calls["usec_per_call"] < 20_000


def test_who_carries_out_an_older_change_leaves_the_newer_one_to_be_carried_out(live: Live) -> None:
    """R23: it must not report as done what it has not looked at."""
    opened(live, step("a"))
    _, older = live.steps._scripts.call("pause", RUN)
    live.steps._scripts.call("resume", RUN, "running", str(older))
    assert live.steps._scripts.call("shift", RUN, "0", older, 4) == ["LATER"]
    assert live.pauses.shifting() == [RUN]
