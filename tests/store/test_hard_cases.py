"""Hard cases of the live state: what is late, what is full, what is large, and what a crash left half done."""

import json
import threading
from collections.abc import Iterator

import pytest

from fleet.core.events import EventType
from fleet.core.ids import RunId, StepId
from fleet.core.outcome import Failure, Outcome, Status
from fleet.core.plan import AnyOf, BestEffort, Settled
from fleet.core.run import End, EndReason, RunContext, RunStatus
from fleet.errors import StoreUnreachable
from fleet.store import shapes
from fleet.store.live import Live
from fleet.store.runs import order
from fleet.store.steps import Answer, Held, Place
from tests.store.test_steps import DONE, FAILED, PLACE, RUN, claim, finish, opened, slots, states, step

CANCELLED = End(status=RunStatus.CANCELLED, reason=EndReason.CANCELLED)
LOST = Outcome(status=Status.LOST, failure=Failure(type="poison", message="3 workers"))
AT_ONCE = Place("w1", "main", 0.0)


def until_due(live: Live) -> None:
    for _ in range(10_000):
        if live.steps.due()[0]:
            return
    pytest.fail("no timer went off")


def kinds(live: Live) -> list[str]:
    return [event.type.value for event in live.streams.read(RUN)]


def test_a_joiner_that_runs_counts_as_running_when_its_run_is_cancelled(live: Live) -> None:
    """R22: `cancelled` is said only when nothing of the run is running."""
    opened(live, step("a"), step("join.1"))
    finish(live)
    joining = claim(live)
    assert live.runs.cancel(RUN) == 1
    assert live.steps.commit(joining, DONE, PLACE, want=False).closed
    assert live.runs.cancel(RUN) == 0


@pytest.mark.parametrize("write", ["commit", "park", "bury", "reap", "renew", "drop", "due"])
def test_nothing_is_written_to_a_run_that_has_ended(live: Live, write: str) -> None:
    """R31, R34: no event follows the end, and no key comes back without a lifetime."""
    opened(live, step("a"), step("b"), step("join.1"))
    waiting = claim(live)
    live.steps.park(waiting, 0.001, "backoff", PLACE, want=False)
    late = claim(live, AT_ONCE)
    live.runs.end(RUN, CANCELLED)
    live.runs.forget(RUN, 30)
    before = live.streams.read(RUN)
    match write:
        case "commit":
            assert live.steps.commit(late, DONE, PLACE, want=False).answer is Answer.SUPERSEDED
        case "park":
            assert live.steps.park(late, 5, "later", PLACE, want=False).answer is Answer.SUPERSEDED
        case "bury" | "reap":
            assert live.steps.reap("main", losses=1 if write == "bury" else 3) == (0, [], [])
        case "renew":
            assert set(live.steps.renew(PLACE, 1, 15, [Held(RUN, "b", late.fence, "main")]).values()) == {"SUPERSEDED"}
        case "drop":
            assert live.runs.drop(RUN, [StepId("b")]) == []
        case "due":
            until_due(live)
    assert live.streams.read(RUN) == before
    assert before[-1].type is EventType.ENDED
    assert live.steps.claim(PLACE)[0] is None
    assert all(live.client.ttl(key) > 0 for key in live.client.scan_iter(f"{live.keys.run(RUN)}*"))


def test_burying_the_joiner_ends_its_run_in_the_same_script(live: Live) -> None:
    """R5: without a joiner nothing would move the run any more."""
    opened(live, step("a"), step("join.1"))
    finish(live)
    for _ in range(4):  # a joiner may cost five times as many workers as a tool
        claim(live, AT_ONCE)
        assert live.steps.reap("main", losses=1)[:2] == (1, [])
    claim(live, AT_ONCE)
    _, (lost,), _ = live.steps.reap("main", losses=1)
    end = End(status=RunStatus.FAILED, reason=EndReason.JOINER_FAILED)
    assert live.steps.bury(lost, LOST, end).answer is Answer.COMMITTED
    assert live.runs.about(RUN)["status"] == "failed"
    assert kinds(live)[-2:] == ["step.ended", "run.ended"]


def test_a_best_effort_join_of_many_needs_keeps_its_timer_until_it_is_loaded(live: Live) -> None:
    """R17: the timer of a step that comes in several chunks does not go off in vain between them."""
    names = [f"p{i}" for i in range(shapes.CHUNK + 5)]
    opened(live, *(step(name) for name in names))
    chunks = list(shapes.records([step("j", *names, join=BestEffort(within=0.001))], {}))
    assert len(chunks) == 2
    live.steps._scripts.call("add", RUN, chunks[0], 4)
    assert states(live)["j"] == "loading"
    assert live.client.zcard(f"{live.keys.namespace}:timers") == 0
    live.steps._scripts.call("add", RUN, chunks[1], 4)
    until_due(live)
    assert states(live)["j"] == "ready"


def test_a_late_part_of_a_step_that_was_dropped_does_not_bring_it_back(live: Live) -> None:
    """R5: half a step could never become ready."""
    names = [f"p{i}" for i in range(shapes.CHUNK + 5)]
    opened(live, *(step(name) for name in names))
    chunks = list(shapes.records([step("j", *names)], {}))
    live.steps._scripts.call("add", RUN, chunks[0], 4)
    live.runs.drop(RUN, [StepId("j")])
    live.steps._scripts.call("add", RUN, chunks[1], 4)
    assert "j" not in states(live)
    assert live.runs.about(RUN)["left"] == str(len(names))


def test_a_step_may_not_need_a_later_one_or_itself(live: Live) -> None:
    """R5: it is refused before anything is written."""
    opened(live)
    for wrong in ([step("a", "b"), step("b")], [step("a", "a")]):
        with pytest.raises(ValueError, match="step a of run r1 needs"):
            live.runs.add(RUN, wrong)
    assert states(live) == {}
    assert live.runs.about(RUN)["left"] == "0"


def test_needs_that_ended_otherwise_count_as_such_when_a_step_is_added(live: Live) -> None:
    """R17, R18: failed, cancelled, lost and skipped needs are known at once."""
    live.runs.open(RunContext(run=RUN, goal="g", tenant="default"), order(4, 1.0))
    ended = {word: Outcome(status=Status(word)) for word in ("succeeded", "failed", "cancelled", "lost", "skipped")}
    live.runs.restore(RUN, [(step(word), outcome) for word, outcome in ended.items()])
    live.runs.add(RUN, [step(f"all.{word}", word) for word in ended])
    live.runs.add(RUN, [step("any", *ended, join=AnyOf()), step("settled", *ended, join=Settled())])
    found = states(live)
    assert found["all.succeeded"] == found["any"] == found["settled"] == "ready"
    assert {found[f"all.{word}"] for word in ended if word != "succeeded"} == {"skipped"}


def test_a_step_made_ready_by_one_need_is_not_touched_by_the_others(live: Live) -> None:
    """R17: any; the rest may fail, or succeed, later: it runs once."""
    opened(live, step("a"), step("b"), step("j", "a", "b", join=AnyOf()), step("join.1"))
    first, second = claim(live), claim(live)
    live.steps.commit(first, DONE, PLACE, want=False)
    joined = claim(live)
    assert joined.step.id == "j"
    live.steps.commit(joined, DONE, PLACE, want=False)
    live.steps.commit(second, FAILED, PLACE, want=False)
    assert states(live) == {"a": "succeeded", "b": "failed", "j": "succeeded", "join.1": "ready"}
    assert live.runs.about(RUN)["left"] == "0"


def test_a_step_of_a_rebuilt_run_is_known_to_have_been_tried(live: Live) -> None:
    """R1, R8: an attempt after the first looks for an outcome on record before it does anything."""
    context = RunContext(run=RUN, goal="g", tenant="default")
    live.runs.open(context, order(4, 1.0), event=EventType.REBUILT)
    live.runs.add(RUN, [step("a")])
    assert claim(live).number == 2


def test_an_open_epoch_is_not_replaced(live: Live) -> None:
    """R34: of two processes that open an epoch at once, one does; ids of events never go back."""
    live.set_epoch(7)
    assert live.epoch() == 1


@pytest.fixture
def full(live: Live) -> Iterator[None]:
    """Redis takes no more memory from `config_set` on."""
    yield
    live.client.config_set("maxmemory", "0")


@pytest.mark.parametrize("write", ["claim", "commit", "park", "drop", "reap", "add", "cancel", "cascade", "due"])
def test_a_redis_that_is_full_loses_nothing(live: Live, full: None, write: str) -> None:
    """R6: a script is done or refused whole, with an error that says so."""
    opened(live, step("a"), *(step(f"c{i}", "a") for i in range(500)), step("b"), step("join.1"))
    attempt = claim(live, AT_ONCE)
    if write == "cascade":
        assert live.steps.commit(attempt, DONE, PLACE, want=False).more
    if write == "due":
        live.steps.park(attempt, 0.001, "later", PLACE, want=False)
    acts = {
        "claim": lambda: live.steps.claim(AT_ONCE),
        "commit": lambda: live.steps.commit(attempt, DONE, PLACE, want=False),
        "park": lambda: live.steps.park(attempt, 0.001, "later", PLACE, want=False),
        "drop": lambda: live.runs.drop(RUN, [StepId("b")]),
        "reap": lambda: live.steps.reap("main", 3),
        "add": lambda: live.runs.add(RUN, [step("d", "b")]),
        "cancel": lambda: live.runs.cancel(RUN),
        "cascade": lambda: live.steps.cascade(RUN),
        "due": lambda: until_due(live),
    }
    live.client.config_set("maxmemory", "1")
    try:
        acts[write]()
    except StoreUnreachable as refused:
        assert "maxmemory" in str(refused)  # noqa: PT017
    live.client.config_set("maxmemory", "0")
    run_to_the_end(live)
    assert live.runs.about(RUN)["left"] == "0"


def run_to_the_end(live: Live) -> None:
    """Claims and commits until nothing moves; each step once."""
    seen: set[str] = set()
    idle = 0
    while idle < 50:
        live.steps.reap("main", 100)
        live.steps.due()
        for run in live.runs.cascading():
            live.steps.cascade(run)
        for run in live.runs.cancelling():
            live.runs.cancel(run)
        attempt, _ = live.steps.claim(PLACE)
        idle = 0 if attempt else idle + 1
        if attempt and live.steps.commit(attempt, DONE, PLACE, want=False).answer is Answer.COMMITTED:
            assert attempt.step.id not in seen
            seen.add(attempt.step.id)


@pytest.mark.parametrize("text", ["ß∂ 漢字 😀", "\x00\x01\x7f", "a\nb\r\n\t", '"\\"', "x" * 1_000_000])
def test_any_text_survives_the_way_through_redis(live: Live, text: str) -> None:
    """R12: arguments and values come out as they went in."""
    opened(live, step("a", args={"t": text, "none": None, "empty": [], "nothing": {}}), step("b", "a"))
    attempt = claim(live)
    assert attempt.step.args == {"t": text, "none": None, "empty": [], "nothing": {}}
    outcome = Outcome(status=Status.SUCCEEDED, value={"t": text, "none": None, "empty": []})
    live.steps.commit(attempt, outcome, PLACE, want=False)
    assert live.runs.outcomes(RUN, ["a"])[StepId("a")] == outcome


def test_a_script_that_redis_forgot_is_loaded_again(live: Live) -> None:
    """R6: Redis restarts with no script."""
    opened(live, step("a"), step("b"))
    claim(live)
    live.client.script_flush()
    assert claim(live).step.id == "b"


def test_numbers_stay_whole_at_the_largest_sizes(live: Live) -> None:
    """Lua prints large numbers as 1e+15: a deadline or a cursor that did would never match again."""
    opened(live, step("a", timeout=1e300, seconds=1e300), step("b", "a", join=BestEffort(within=1e9)))
    attempt = claim(live)
    held = Held(RUN, "a", attempt.fence, "main")
    assert live.steps.renew(PLACE, 1, 15, [held]) == {}
    assert "e+" not in json.dumps(live.client.hgetall(live.keys.run(RUN, "state")))


def test_a_large_fan_out_and_fan_in_goes_by_short_scripts(live: Live) -> None:
    """R16: no script goes through more than a bounded number of things; the times are measured in benchmarks."""
    names = [f"p{i}" for i in range(2000)]
    before = live.client.info("commandstats")
    opened(live, step("root"), *(step(n, "root") for n in names), step("j", *names, join=Settled()), step("join.1"))
    done = live.steps.commit(claim(live), DONE, PLACE, want=False)
    while done.more and live.steps.cascade(RUN)[0]:
        pass
    live.runs.cancel(RUN)
    after = live.client.info("commandstats")
    most = 16 * shapes.CHUNK
    assert calls(after, inner=True) - calls(before, inner=True) < most * (calls(after) - calls(before))
    assert set(states(live).values()) == {"succeeded", "cancelled"}


def calls(stats: dict[str, dict[str, int]], *, inner: bool = False) -> int:
    """Scripts that were called, or commands that scripts called."""
    outer = ("cmdstat_fcall", "cmdstat_eval")
    return sum(each["calls"] for name, each in stats.items() if (name not in outer) == inner)


def test_two_runs_do_not_touch_each_other(live: Live) -> None:
    slots(live, 4)
    opened(live, step("a"), step("join.1"))
    opened(live, step("a"), step("join.1"), run=RunId("r2"))
    live.runs.cancel(RUN)
    assert states(live, RunId("r2")) == {"a": "ready", "join.1": "joining"}
    assert claim(live).context.run == "r2"


def test_threads_that_end_give_their_connections_back(live: Live) -> None:
    """R37: many short threads use few connections."""
    pool = live.client.connection_pool
    client = Live.connect(f"redis://127.0.0.1:{pool.connection_kwargs['port']}/0", live.keys.namespace, most=3)
    found: list[object] = []
    for _ in range(20):
        thread = threading.Thread(target=lambda: found.append(client.steps.claim(PLACE)))
        thread.start()
        thread.join()
    client.close()
    assert found == [(None, [])] * 20
