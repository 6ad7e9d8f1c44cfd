"""Runs that were left half-way, and a Redis that lost what it knew: every run goes on."""

import threading
from contextlib import closing

import pytest
import redis
from fleet._apps.scheduler.main import Scheduler

from fleet.core.events import EventType
from fleet.core.ids import RunId, StepId
from fleet.core.run import RunStatus
from fleet.engine import answers, cancel, recover, sweep
from fleet.engine.deps import Deps
from fleet.errors import StoreUnreachable
from fleet.store.steps import Answer
from fleet.tools.decorator import tool
from tests.engine.fleetlet import AT_ONCE, DONE, HERE, a_step, asked, claim, ended, planned, slot_of, with_tools


def test_an_answer_whose_process_died_before_it_went_on_is_heeded(deps: Deps) -> None:
    """R5, R21: the answer is on record, and the next round is not there yet."""
    run = asked(deps)
    deps.live.steps.commit(claim(deps), DONE, HERE, want=False)
    joining = claim(deps)
    answers.ask(run, joining.step.id, "which one?", deps)
    deps.live.steps.commit(joining, DONE, HERE, want=False)
    assert deps.record.answers.answer(run, joining.step.id, "this one", "someone")
    recover.go_on(deps)
    assert claim(deps).step.id == "plan.2"
    assert deps.record.goals.of_run(run).status is RunStatus.RUNNING
    recover.go_on(deps)
    assert deps.live.runs.about(run)["left"] == "1"


def test_a_question_that_waits_is_left_alone(deps: Deps) -> None:
    """R21."""
    run = asked(deps)
    answers.ask(run, StepId("join.1"), "which one?", deps)
    recover.go_on(deps)
    assert deps.record.goals.of_run(run).status is RunStatus.ASKING


def test_a_cancellation_whose_process_died_half_way_is_finished(deps: Deps) -> None:
    """R22: on record, and not yet in the live state."""
    run = planned(deps, a_step())
    deps.record.goals.set_status(run, RunStatus.CANCELLING)
    recover.go_on(deps)
    assert ended(deps, run).status is RunStatus.CANCELLED


def test_one_run_that_can_not_be_rebuilt_does_not_stop_the_others(deps: Deps, monkeypatch: pytest.MonkeyPatch) -> None:
    """R5, R8."""
    bad, good = planned(deps, a_step()), planned(deps, a_step())
    for run in (bad, good):
        deps.live.client.delete(*deps.live.client.scan_iter(f"{deps.live.keys.run(run)}*"))
    rebuild = recover.rebuild

    def picky(run: RunId, deps: Deps) -> None:
        if run == bad:
            raise ValueError("its plan can't be read")
        rebuild(run, deps)

    monkeypatch.setattr(recover, "rebuild", picky)
    late = deps.clock() + recover.LAUNCH + 1
    deps.clock = lambda: late
    Scheduler(deps).tick()
    assert deps.live.runs.missing([bad, good]) == [bad]


def test_a_run_whose_end_was_not_recorded_is_joined_again_when_it_is_rebuilt(deps: Deps) -> None:
    """R5, R8: its joiner's outcome is on record, its worker died before the end was, and Redis lost everything."""
    run = planned(deps, a_step())
    fence = claim(deps).fence
    for step in ("a", "join.1"):
        deps.record.outcomes.put(run, StepId(step), DONE, fence)
    deps.live.client.delete(*deps.live.client.scan_iter(f"{deps.live.keys.namespace}:*"))
    Scheduler(deps).tick()
    assert claim(deps).step.id == "join.1"


def test_an_outcome_that_is_on_record_is_not_worked_out_again_in_a_rebuilt_run(deps: Deps) -> None:
    """R1, R8: a worker that outlived Redis put it there after the run was rebuilt."""
    calls: list[int] = []

    @tool(effect="reads", breaker=None)
    def act() -> int:
        calls.append(1)
        return 2

    run = planned(with_tools(deps, act), a_step())
    old = claim(deps)
    deps.live.client.delete(*deps.live.client.scan_iter(f"{deps.live.keys.namespace}:*"))
    Scheduler(deps).tick()
    deps.record.outcomes.put(run, StepId("a"), DONE, old.fence)
    slot_of(deps).carry(None)
    assert calls == []
    assert ended(deps, run).answer == 1


def test_after_a_silence_of_redis_nothing_is_reaped_for_one_lease(deps: Deps, monkeypatch: pytest.MonkeyPatch) -> None:
    """R6: the workers could not renew either."""
    run = planned(deps, a_step())
    claim(deps, AT_ONCE)
    scheduler = Scheduler(deps)
    stop = threading.Event()

    def once(*_: object) -> bool:
        stop.set()
        raise StoreUnreachable("Redis does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(deps.live, "lead", once)
        scheduler.run(stop)
    assert scheduler.tick().reaped == 0
    assert Scheduler(deps).tick().reaped == 1
    assert run


def test_a_joiner_that_runs_keeps_its_run_cancelling(deps: Deps) -> None:
    """R22: `cancelled` is said only when it is true."""
    run = planned(deps, a_step())
    deps.live.steps.commit(claim(deps), DONE, HERE, want=False)
    joining = claim(deps)
    assert cancel.cancel(run, deps) is RunStatus.CANCELLING
    sweep.sweep(deps)
    assert deps.record.goals.of_run(run).status is RunStatus.CANCELLING
    deps.live.steps.commit(joining, DONE, HERE, want=False)
    sweep.sweep(deps)
    assert ended(deps, run).status is RunStatus.CANCELLED


def saved(deps: Deps) -> dict[str, bytes]:
    raw = redis.Redis.from_url(deps.settings.redis_url.get_secret_value() if deps.settings.redis_url else "")
    with closing(raw):
        return {key.decode(): raw.dump(key) for key in raw.scan_iter(f"{deps.live.keys.namespace}:*", count=1000)}


def put_back(deps: Deps, older: dict[str, bytes]) -> None:
    """As if Redis had been started again from an old file."""
    raw = redis.Redis.from_url(deps.settings.redis_url.get_secret_value() if deps.settings.redis_url else "")
    with closing(raw):
        raw.delete(*raw.scan_iter(f"{deps.live.keys.namespace}:*", count=1000))
        for key, body in older.items():
            raw.restore(key, 0, body)


def test_a_redis_that_came_back_older_is_noticed_and_every_open_run_rebuilt(deps: Deps) -> None:
    """R3, R8: what ended since stays ended; late writers of the old epoch are refused; other runs go on."""
    calls: list[int] = []

    @tool(effect="reads", breaker=None)
    def act() -> int:
        calls.append(1)
        return len(calls)

    run = planned(with_tools(deps, act), a_step("a"), a_step("b", needs=(StepId("a"),)))
    Scheduler(deps).tick()
    older = saved(deps)
    Scheduler(deps).tick()
    deps.settings = deps.settings.model_copy(update={"slice": 1e-9})
    slot_of(deps).carry(None)
    assert calls == [1]
    late = claim(deps)
    put_back(deps, older)
    assert deps.live.runs.states(run)[StepId("a")].state == "ready"
    Scheduler(deps).tick()
    assert deps.live.runs.states(run)[StepId("a")].state == "succeeded"
    assert deps.live.steps.commit(late, DONE, HERE, want=False).answer is Answer.STALE
    deps.settings = deps.settings.model_copy(update={"slice": 5.0})
    slot_of(deps).carry(None)
    assert calls == [1, 1]
    assert ended(deps, run).answer == 2
    first = deps.live.streams.read(run)[0]
    assert (first.type, first.id) == (EventType.REBUILT, f"{deps.live.epoch()}-0")


def test_a_redis_that_is_up_to_date_keeps_its_epoch(deps: Deps) -> None:
    """R8: also when a scheduler dies between its beat in Redis and the one on record."""
    epoch = deps.live.epoch()
    for _ in range(3):
        assert not recover.beat(deps)
    deps.live.epochs.beat()
    assert not recover.beat(deps)
    assert deps.live.epoch() == epoch


def test_an_epoch_is_opened_by_one_process_and_awaited_by_the_others(deps: Deps) -> None:
    """R8: nobody wipes what another has rebuilt already."""
    run = planned(deps, a_step())
    deps.live.epochs.close()
    opened: list[bool] = []
    threads = [threading.Thread(target=lambda: opened.append(recover.ensure_epoch(deps))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(opened) == [False, False, False, True]
    assert deps.live.runs.missing([run]) == [run]


@tool(effect="reads", breaker=None)
def act() -> str:
    """Act."""
    return "acted"


def test_a_run_that_ended_just_before_redis_lost_its_events_has_an_end_to_be_heard(deps: Deps) -> None:
    """R8: its end is on record, and nothing of it had been filed."""
    run = planned(deps, a_step())
    slot_of(with_tools(deps, act)).carry(None)
    end = deps.record.goals.of_run(run).end
    assert end is not None
    deps.live.client.delete(*deps.live.client.scan_iter(f"{deps.live.keys.namespace}:*"))
    Scheduler(deps).tick()
    told, epoch = deps.record.events.read(run), deps.live.epoch()
    said = [(event.id, event.type) for event in told]
    assert said == [(f"{epoch}-1", EventType.REBUILT), (f"{epoch}-2", EventType.ENDED)]
    assert told[-1].data["status"] == end.status
    assert recover.tell_ends(deps) == 0


def test_what_happened_in_a_run_that_ended_is_filed_as_it_was_where_redis_still_knows_it(deps: Deps) -> None:
    """R8: a part of what happened is never filed in place of the whole."""
    run = planned(deps, a_step())
    slot_of(with_tools(deps, act)).carry(None)
    assert recover.tell_ends(deps) == 0
    Scheduler(deps).tick()
    assert deps.record.events.read(run)[0].type is EventType.ACCEPTED
