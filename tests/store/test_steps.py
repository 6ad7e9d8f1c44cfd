"""The life of a step in Redis: what each script answers, and what it leaves behind."""

import time
from typing import Any

import pytest

from fleet.core.attempt import Attempt
from fleet.core.ids import RunId, StepId
from fleet.core.outcome import Failure, Outcome, Status
from fleet.core.plan import AnyOf, BestEffort, Hole, JoinPolicy, Quorum, Ref, Settled, Step
from fleet.core.run import End, EndReason, RunContext, RunStatus
from fleet.store.live import Live
from fleet.store.runs import RunClosed, order
from fleet.store.scripts import EpochLost
from fleet.store.shapes import Wake
from fleet.store.steps import Answer, Held, Place

RUN = RunId("r1")
PLACE = Place("w1", "main", 15.0)
DONE = Outcome(status=Status.SUCCEEDED, value=1)
FAILED = Outcome(status=Status.FAILED, failure=Failure(type="broken", message="it broke"))


def step(name: str, *needs: str, join: JoinPolicy | None = None, **more: Any) -> Step:
    extra = {"join": join} if join else {}
    return Step(id=StepId(name), tool="noop", needs=tuple(StepId(n) for n in needs), **extra, **more)


def opened(live: Live, *steps: Step, run: RunId = RUN, priority: int = 4) -> None:
    live.runs.open(RunContext(run=run, goal="g1", tenant="default"), order(priority, time.time()))
    live.runs.add(run, steps)


def claim(live: Live, place: Place = PLACE) -> Attempt:
    attempt, _ = live.steps.claim(place)
    assert attempt is not None
    return attempt


def states(live: Live, run: RunId = RUN) -> dict[str, str]:
    return {str(name): found.state for name, found in live.runs.states(run).items()}


def finish(live: Live, outcome: Outcome = DONE) -> str:
    attempt = claim(live)
    assert live.steps.commit(attempt, outcome, PLACE, want=False).answer is Answer.COMMITTED
    return attempt.step.id


def slots(live: Live, number: int) -> None:
    live.steps.renew(PLACE, number, 60, [])


def test_a_result_delivered_twice_counts_once(live: Live) -> None:
    opened(live, step("a"), step("b"), step("c", "a", "b"))
    first = claim(live)
    assert live.steps.commit(first, DONE, PLACE, want=False).answer is Answer.COMMITTED
    assert live.steps.commit(first, DONE, PLACE, want=False).answer is Answer.DUPLICATE
    assert states(live)["c"] == "waiting"
    finish(live)
    assert states(live)["c"] == "ready"


def test_a_second_claim_gets_another_step_or_none(live: Live) -> None:
    """R2."""
    opened(live, step("a"))
    claim(live)
    assert live.steps.claim(PLACE, Wake(RUN, "a"))[0] is None


def test_a_commit_claims_the_next_step_in_the_same_call(live: Live) -> None:
    opened(live, step("a"), step("b", "a"))
    following = live.steps.commit(claim(live), DONE, PLACE).attempt
    assert following is not None
    assert following.step.id == "b"
    assert following.fence == "1.1"


def test_values_of_referred_steps_travel_with_the_claim(live: Live) -> None:
    hole = Hole(at=("value",), ref=Ref(step=StepId("a")))
    opened(live, step("a"), step("b", "a", args={"value": "$a"}, holes=(hole,)))
    following = live.steps.commit(claim(live), DONE, PLACE).attempt
    assert following is not None
    assert following.outcomes == {"a": DONE}


def test_the_loser_of_a_lease_cannot_replace_an_outcome(live: Live) -> None:
    """R3: a fence that is not the newest is STALE while the step runs, DUPLICATE once it has ended."""
    opened(live, step("a"), step("b", "a"))
    slow = claim(live, Place("slow", "main", 0.0))
    again, lost, _ = live.steps.reap("main", losses=3)
    assert (again, lost) == (1, [])
    quick = claim(live)
    assert quick.number == 2
    assert quick.losses == 1
    assert live.steps.commit(slow, FAILED, PLACE, want=False).answer is Answer.STALE
    assert live.steps.commit(quick, DONE, PLACE, want=False).answer is Answer.COMMITTED
    assert live.steps.commit(slow, FAILED, PLACE, want=False).answer is Answer.DUPLICATE
    assert live.runs.outcomes(RUN, ["a"]) == {"a": DONE}


def test_a_dropped_step_is_superseded(live: Live) -> None:
    opened(live, step("a"), step("b"))
    attempt = claim(live)
    assert live.runs.drop(RUN, [StepId("a"), StepId("b")]) == ["a", "b"]
    assert live.steps.commit(attempt, DONE, PLACE, want=False).answer is Answer.SUPERSEDED
    assert live.steps.claim(PLACE)[0] is None


@pytest.mark.parametrize(
    ("policy", "ends", "state"),
    [
        (None, [DONE, FAILED], "skipped"),
        (AnyOf(), [FAILED, DONE], "ready"),
        (AnyOf(), [FAILED, FAILED, FAILED], "skipped"),
        (Quorum(k=2), [DONE, FAILED, DONE], "ready"),
        (Quorum(k=2), [DONE, FAILED, FAILED], "skipped"),
        (Settled(), [FAILED, FAILED], "waiting"),
        (Settled(), [FAILED, DONE, FAILED], "ready"),
    ],
)
def test_a_join_policy_decides_by_what_its_needs_came_to(
    live: Live, policy: JoinPolicy | None, ends: list[Outcome], state: str
) -> None:
    """R17."""
    opened(live, step("a"), step("b"), step("c"), step("j", "a", "b", "c", join=policy))
    for outcome in ends:
        attempt = claim(live)
        if attempt.step.id == "j":
            break
        live.steps.commit(attempt, outcome, PLACE, want=False)
    assert states(live)["j"] == state


def test_a_best_effort_join_runs_with_what_is_there_at_its_time(live: Live) -> None:
    """R17."""
    opened(live, step("a"), step("b"), step("j", "a", "b", join=BestEffort(within=0.001)))
    finish(live)
    claim(live)
    deadline = time.monotonic() + 5
    while live.steps.due()[0] == 0 and time.monotonic() < deadline:
        pass
    assert states(live)["j"] == "ready"


def test_skipping_goes_down_the_graph(live: Live) -> None:
    opened(live, step("a"), step("b", "a"), step("c", "b"), step("d", "c"), step("join.1"))
    finish(live, FAILED)
    assert states(live) == {"a": "failed", "b": "skipped", "c": "skipped", "d": "skipped", "join.1": "ready"}


def test_the_joiner_waits_for_every_step_and_fires_once(live: Live) -> None:
    """R16."""
    opened(live, step("a"), step("b"), step("join.1"))
    assert states(live)["join.1"] == "joining"
    finish(live)
    assert states(live)["join.1"] == "joining"
    finish(live, FAILED)
    assert states(live)["join.1"] == "ready"
    assert claim(live).step.id == "join.1"
    assert live.steps.claim(PLACE)[0] is None


@pytest.mark.parametrize("parents", [1, 2, 399, 400, 401, 5000])
def test_a_join_of_many_parents_fires_once(live: Live, parents: int) -> None:
    """R16: counted by name, in chunks on the way in; the parents' own fan-out goes by pages."""
    names = [f"p{i}" for i in range(parents)]
    opened(live, step("root"), *(step(n, "root") for n in names), step("j", *names, join=Settled()))
    attempt: Attempt | None = claim(live)
    fired = 0
    while attempt:
        fired += attempt.step.id == "j"
        bad = attempt.step.id.endswith("3")
        done = live.steps.commit(attempt, FAILED if bad else DONE, PLACE)
        more = done.more
        while more:
            more, _ = live.steps.cascade(RUN)
        attempt = done.attempt or live.steps.claim(PLACE)[0]
    assert fired == 1
    assert live.runs.about(RUN)["left"] == "0"
    assert live.client.exists(live.keys.run(RUN, "cascade")) == 0


def test_adding_again_changes_nothing(live: Live) -> None:
    opened(live, step("a"), step("b", "a"))
    finish(live)
    live.runs.add(RUN, [step("a"), step("b", "a"), step("c", "a", "b")])
    assert states(live) == {"a": "succeeded", "b": "ready", "c": "waiting"}
    assert live.runs.about(RUN)["left"] == "2"


def test_a_step_cannot_need_what_is_not_there(live: Live) -> None:
    opened(live, step("a"))
    with pytest.raises(ValueError, match="needs x"):
        live.runs.add(RUN, [step("b", "x")])
    assert states(live) == {"a": "ready"}


def test_parked_steps_come_back_when_they_are_due(live: Live) -> None:
    opened(live, step("a"))
    attempt = claim(live)
    assert live.steps.park(attempt, 0.001, "backoff", PLACE, want=False).answer is Answer.PARKED
    deadline = time.monotonic() + 5
    while live.steps.due()[0] == 0 and time.monotonic() < deadline:
        pass
    again = claim(live)
    assert (again.number, again.retries, again.losses) == (2, 1, 0)


def test_a_step_handed_back_is_ready_at_once(live: Live) -> None:
    opened(live, step("a"))
    live.steps.park(claim(live), 0, "worker stops", PLACE, retry=False, want=False)
    assert claim(live).retries == 0


def test_a_step_that_costs_too_many_workers_is_named_and_buried(live: Live) -> None:
    """R10."""
    opened(live, step("a"), step("b", "a"), step("join.1"))
    for losses in (1, 2):
        claim(live, Place(f"w{losses}", "main", 0.0))
        assert live.steps.reap("main", losses=3)[0] == 1
    claim(live, Place("w3", "main", 0.0))
    again, (lost,), _ = live.steps.reap("main", losses=3)
    assert (again, lost.losses, lost.worker) == (0, 3, "w3")
    outcome = Outcome(status=Status.LOST, failure=Failure(type="poison", message="3 workers"))
    assert live.steps.bury(lost, outcome).answer is Answer.COMMITTED
    assert live.steps.bury(lost, outcome).answer is Answer.DUPLICATE
    assert states(live) == {"a": "lost", "b": "skipped", "join.1": "ready"}


def test_a_heartbeat_keeps_a_lease_and_tells_of_one_that_is_gone(live: Live) -> None:
    opened(live, step("a"), step("b", timeout=0.001))
    kept, late = claim(live), claim(live)
    held = [Held(RUN, a.step.id, a.fence, "main") for a in (kept, late)]
    deadline = time.monotonic() + 5
    refused: dict[tuple[str, str, str], str] = {}
    while not refused and time.monotonic() < deadline:
        refused = live.steps.renew(PLACE, 8, 15, held)
    assert refused == {(RUN, "b", "1.1"): "DEADLINE"}
    assert live.steps.renew(PLACE, 8, 15, [Held(RUN, "a", "1.7", "main")]) == {(RUN, "a", "1.7"): "STALE"}
    assert [w.slots for w in live.workers()] == [8]
    live.steps.leave("w1")
    assert live.workers() == []


def test_messages_are_for_ready_steps_and_no_more_than_sleeping_slots(live: Live) -> None:
    slots(live, 3)
    live.runs.open(RunContext(run=RUN, goal="g", tenant="default"), order(4, 1.0))
    woken = live.runs.add(RUN, [step(f"s{i}") for i in range(10)])
    assert woken == [Wake(RUN, "s0"), Wake(RUN, "s1"), Wake(RUN, "s2")]
    assert live.steps.untold() == []


def test_every_ready_step_is_told_once_while_slots_are_free(live: Live) -> None:
    """50 ready steps on 64 idle slots: 50 messages, each for a step of its own, a few at a time."""
    slots(live, 64)
    live.runs.open(RunContext(run=RUN, goal="g", tenant="default"), order(4, 1.0))
    messages = live.runs.add(RUN, [step(f"s{i}") for i in range(50)])
    claimed = []
    for message in messages:
        attempt, more = live.steps.claim(PLACE, message)
        claimed.append(attempt)
        messages.extend(more)
    assert len(messages) == len(set(messages)) == 50
    assert len({a.step.id for a in claimed if a}) == 50


def test_a_message_that_was_lost_is_sent_again(live: Live) -> None:
    slots(live, 4)
    live.runs.open(RunContext(run=RUN, goal="g", tenant="default"), order(4, 1.0))
    first = live.runs.add(RUN, [step("a")])
    deadline = time.monotonic() + 10
    again: list[Wake] = []
    while not again and time.monotonic() < deadline:
        again = live.steps.untold()
    assert again == first == [Wake(RUN, "a")]


def test_a_high_priority_run_overtakes_and_the_longest_path_goes_first(live: Live) -> None:
    live.runs.open(RunContext(run=RUN, goal="g", tenant="default"), order(4, 1.0))
    live.runs.add(RUN, [step("short"), step("long")], {StepId("short"): 1.0, StepId("long"): 9.0})
    opened(live, step("urgent"), run=RunId("r2"), priority=9)
    assert [claim(live).step.id for _ in range(3)] == ["urgent", "long", "short"]


def test_cancelling_settles_what_has_not_started(live: Live) -> None:
    """R22: after the acknowledgement no step starts; what runs is told by the next heartbeat."""
    opened(live, *(step(f"s{i}") for i in range(1000)), step("z", "s0"), step("join.1"))
    running = claim(live)
    assert live.runs.cancel(RUN) == 1
    assert live.steps.claim(PLACE)[0] is None
    held = Held(RUN, running.step.id, running.fence, "main")
    assert set(live.steps.renew(PLACE, 4, 15, [held]).values()) == {"CANCELLED"}
    done = live.steps.commit(running, Outcome(status=Status.CANCELLED), PLACE)
    assert done.closed
    assert set(states(live).values()) == {"cancelled"}
    with pytest.raises(RunClosed):
        live.runs.add(RUN, [step("late")])


def test_an_ended_run_keeps_its_end_and_leaves_nothing_behind(live: Live) -> None:
    """R31: every key has a lifetime once its run has ended and its events are filed."""
    opened(live, step("a"), step("join.1"))
    finish(live)
    end = End(status=RunStatus.SUCCEEDED, reason=EndReason.FINISHED, answer="yes")
    live.steps.commit(claim(live), DONE, PLACE, want=False, end=end)
    assert live.runs.about(RUN)["status"] == "succeeded"
    assert not live.runs.end(RUN, end)
    assert live.runs.ended(10) == [RUN]
    live.runs.forget(RUN, 30)
    ages = {key: live.client.ttl(key) for key in live.client.scan_iter(f"{live.keys.namespace}:run:*")}
    assert ages
    assert all(0 < age <= 30 for age in ages.values())
    assert live.runs.ended(10) == []


def test_events_are_gap_free_and_in_order(live: Live) -> None:
    """R34: ids are `epoch-n` without a gap."""
    opened(live, step("a"), step("b", "a"))
    finish(live)
    finish(live)
    events = live.streams.read(RUN)
    first = int(events[0].id.split("-")[1])
    assert [e.id for e in events] == [f"1-{first + i}" for i in range(len(events))]
    assert [e.type.value for e in events if e.step == "a"] == ["step.added", "step.started", "step.ended"]
    assert live.streams.read(RUN, events[-2].id) == events[-1:]


def test_a_breaker_opens_lets_one_probe_through_and_closes(live: Live) -> None:
    """R29: one state for the fleet; a single probe."""
    from fleet.core.breaker import BreakerPolicy, BreakerState

    policy = BreakerPolicy(failures=3, window=60, rest=0.05)
    for _ in range(2):
        assert live.breakers.tally("search", policy, good=False)[0] is BreakerState.CLOSED
    assert live.breakers.tally("search", policy, good=False) == (BreakerState.OPEN, True)
    state, wait = live.breakers.admit("search", policy)
    assert state is BreakerState.OPEN
    assert 0 < wait <= 0.05
    deadline = time.monotonic() + 5
    while live.breakers.admit("search", policy)[0] is BreakerState.OPEN and time.monotonic() < deadline:
        pass
    assert live.breakers.admit("search", policy)[0] is BreakerState.OPEN
    assert live.breakers.tally("search", policy, good=True) == (BreakerState.CLOSED, True)
    assert live.breakers.admit("search", policy) == (BreakerState.CLOSED, 0.0)


def test_without_an_epoch_nothing_is_changed(live: Live) -> None:
    """R8: a Redis that lost everything is noticed before anything is written to it."""
    live.client.delete(live.keys.epoch)
    with pytest.raises(EpochLost):
        live.steps.claim(PLACE)
    with pytest.raises(EpochLost):
        opened(live, step("a"))


def test_a_rebuilt_run_goes_on_from_its_outcomes(live: Live) -> None:
    live.runs.open(RunContext(run=RUN, goal="g", tenant="default"), order(4, 1.0))
    live.runs.restore(RUN, [(step("a"), DONE), (step("x"), FAILED)])
    live.runs.add(RUN, [step("a"), step("b", "a"), step("y", "x"), step("join.1")])
    assert states(live) == {"a": "succeeded", "x": "failed", "b": "ready", "y": "skipped", "join.1": "joining"}
    finish(live)
    assert states(live)["join.1"] == "ready"
