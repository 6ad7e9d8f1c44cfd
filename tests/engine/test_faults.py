"""What the engine does when a part of it fails at a bad moment: nothing hangs, nothing is done twice or made up."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from fleet._apps.scheduler.main import Scheduler
from fleet._apps.tasks.heartbeat import Heartbeat

from fleet.app import make_app, send
from fleet.core.attempt import Attempt
from fleet.core.events import EventType
from fleet.core.goal import Goal
from fleet.core.ids import RunId, StepId
from fleet.core.outcome import Failure, FailureClass, Outcome, Status
from fleet.core.plan import Plan, Problem, Step
from fleet.core.run import End, EndReason, RunStatus
from fleet.engine import answers, cancel, recover, submit, sweep
from fleet.engine.calls import MODEL_BREAKER, LedgeredModel
from fleet.engine.deps import Deps, open_deps
from fleet.engine.holding import Holding
from fleet.engine.slot import RUNNERS, Slot
from fleet.engine.submit import Handle
from fleet.engine.told import Nobody
from fleet.errors import PlanRejected, StoreUnreachable
from fleet.llm.port import Message, ModelFailed, ModelRequest
from fleet.llm.scripted import ScriptedModel
from fleet.store.shapes import Wake
from fleet.store.steps import Answer, Place
from fleet.tools.context import ToolContext
from fleet.tools.decorator import tool
from fleet.tools.registry import Registry
from fleet.tools.tool import Tool
from tests.fleets import settings_for
from tests.servers import RedisProcess

HERE = Place("w1", "main", 30.0)
AT_ONCE = Place("w2", "main", 0.0)
DONE = Outcome(status=Status.SUCCEEDED, value=1)


@pytest.fixture
def deps(redis_server: RedisProcess, tmp_path: Path) -> Iterator[Deps]:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "token").write_text("s3cr3t-value")
    settings = settings_for(tmp_path, redis_server.url, tools="", builtins=False, secrets=secrets, retention=60.0)
    with closing(open_deps(settings, lambda wakes: None)) as deps:
        recover.ensure_epoch(deps)
        deps.live.steps.renew(HERE, 4, 60, [])
        yield deps


def with_tools(deps: Deps, *tools: Tool) -> Deps:
    deps.registry = Registry(tools)
    return deps


def slot_of(deps: Deps, holding: Holding | None = None) -> Slot:
    return Slot(deps, holding or Holding(), HERE, Nobody())


def planned(deps: Deps, *steps: Step) -> RunId:
    (handle,) = submit.submit([(Goal(objective="try"), Plan(steps=steps))], deps)
    assert isinstance(handle, Handle)
    return RunId(handle.run_id)


def asked(deps: Deps) -> RunId:
    (handle,) = submit.submit([(Goal(objective="ask"), None)], deps)
    assert isinstance(handle, Handle)
    return RunId(handle.run_id)


def a_step(name: str = "a", tool: str = "act", **more: Any) -> Step:
    return Step(id=StepId(name), tool=tool, **more)


def claim(deps: Deps, place: Place = HERE) -> Attempt:
    attempt, _ = deps.live.steps.claim(place)
    assert attempt is not None
    return attempt


def outcome_of(deps: Deps, run: RunId, step: str = "a") -> Outcome:
    outcome = deps.record.outcomes.get(run, StepId(step))
    assert outcome is not None
    return outcome


def ended(deps: Deps, run: RunId) -> End:
    end = deps.record.goals.of_run(run).end
    assert end is not None
    assert deps.live.runs.about(run)["status"] == end.status
    return end


def unreachable(*_: object, **__: object) -> Any:
    raise StoreUnreachable("Redis does not answer")


def test_a_join_step_that_fails_in_the_engine_ends_its_run(deps: Deps, monkeypatch: pytest.MonkeyPatch) -> None:
    """R5: nothing else would move the run."""

    def bug(*_: object) -> Any:
        raise KeyError("not thought of")

    monkeypatch.setitem(RUNNERS, "join", bug)

    @tool(effect="pure")
    def act() -> int:
        return 1

    run = planned(with_tools(deps, act), a_step())
    slot_of(deps).carry(None)
    assert ended(deps, run).reason is EndReason.JOINER_FAILED


def test_a_join_step_that_takes_its_workers_down_ends_its_run(deps: Deps) -> None:
    """R5, R10."""
    run = planned(deps, a_step())
    deps.live.steps.commit(claim(deps), DONE, HERE, want=False)
    for _ in range(deps.settings.losses):
        assert claim(deps, AT_ONCE).step.id == "join.1"
        sweep.sweep(deps)
    assert ended(deps, run).reason is EndReason.JOINER_FAILED
    assert [letter.step_id for letter in deps.record.dead.list(run)] == ["join.1"]


def test_an_attempt_that_lost_its_lease_puts_nothing_on_record_when_it_is_stopped(deps: Deps) -> None:
    """R3: it would stand in the way of the attempt that goes on."""
    holding = Holding()
    started = threading.Event()

    @tool(effect="reads", breaker=None)
    async def act(ctx: ToolContext) -> int:
        started.set()
        await asyncio.sleep(60)
        return 1

    run = planned(with_tools(deps, act), a_step())
    thread = threading.Thread(target=Slot(deps, holding, AT_ONCE, Nobody()).carry, args=(None,))
    thread.start()
    assert started.wait(10)
    assert deps.live.steps.reap("main", losses=3)[0] == 1
    assert claim(deps).number == 2
    for key, why in deps.live.steps.renew(AT_ONCE, 1, 60, holding.held()).items():
        holding.cancel(key, why)
    thread.join(10)
    assert not thread.is_alive()
    assert deps.record.outcomes.get(run, StepId("a")) is None


def test_a_worker_that_closes_hands_its_async_steps_back(deps: Deps) -> None:
    """R32: its loop ends under them; that is no outcome."""
    holding = Holding()
    started = threading.Event()

    @tool(effect="reads", breaker=None)
    async def act() -> int:
        started.set()
        await asyncio.sleep(60)
        return 1

    run = planned(with_tools(deps, act), a_step())
    thread = threading.Thread(target=slot_of(deps, holding).carry, args=(None,))
    thread.start()
    assert started.wait(10)
    holding.stopping.set()
    deps.portal.close()
    thread.join(10)
    assert deps.record.outcomes.get(run, StepId("a")) is None
    assert deps.live.runs.states(run)[StepId("a")].state == "ready"


def test_a_call_that_was_made_is_not_made_again_when_redis_goes_away_after_it(
    deps: Deps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1, R6: its breaker can't be told; its outcome stands."""
    calls: list[int] = []

    @tool(effect="reads")
    def act() -> int:
        calls.append(1)
        return 1

    run = planned(with_tools(deps, act), a_step())
    monkeypatch.setattr(deps.live.breakers, "tally", unreachable)
    slot_of(deps).carry(None)
    assert outcome_of(deps, run).ok
    assert calls == [1]


def test_progress_that_nobody_can_hear_fails_no_tool(deps: Deps, monkeypatch: pytest.MonkeyPatch) -> None:
    """R6."""

    @tool(effect="reads", breaker=None)
    def act(ctx: ToolContext) -> int:
        ctx.progress("half-way")
        return 1

    run = planned(with_tools(deps, act), a_step())
    monkeypatch.setattr(deps.live.streams, "progress", unreachable)
    slot_of(deps).carry(None)
    assert outcome_of(deps, run).ok


def test_a_write_that_broke_off_is_in_doubt_and_not_tried_again(deps: Deps) -> None:
    """R4: a connection that broke after the request was sent."""
    calls: list[int] = []

    @tool(effect="writes", breaker=None)
    def act(ctx: ToolContext) -> int:
        calls.append(1)
        raise ConnectionResetError("reset by peer")

    run = planned(with_tools(deps, act), a_step())
    slot_of(deps).carry(None)
    failure = outcome_of(deps, run).failure
    assert failure is not None
    assert failure.cls is FailureClass.IN_DOUBT
    assert calls == [1]


def test_a_write_that_ended_while_its_run_was_cancelled_is_on_record_as_done(deps: Deps) -> None:
    """R4, R22: what happened is not made unhappened."""
    holding = Holding()

    @tool(effect="writes", breaker=None)
    def act(ctx: ToolContext) -> str:
        (held,) = holding.held()
        holding.cancel((held.run, held.step, held.fence), "CANCELLED")
        return "written"

    run = planned(with_tools(deps, act), a_step())
    slot_of(deps, holding).carry(None)
    assert outcome_of(deps, run).value == "written"


@pytest.mark.parametrize("error", [SystemExit(3), ValueError("no"), ModelFailed(Failure(type="refused", message="no"))])
def test_whatever_a_tool_raises_is_a_typed_failure(deps: Deps, error: BaseException) -> None:
    """R30."""

    @tool(effect="reads", breaker=None)
    def act() -> None:
        raise error

    run = planned(with_tools(deps, act), a_step())
    slot_of(deps).carry(None)
    failure = outcome_of(deps, run).failure
    assert failure is not None
    assert failure.type in ("SystemExit", "ValueError", "refused")


def test_a_models_passing_failure_within_a_tool_is_tried_again(deps: Deps) -> None:
    """R30: its class is not lost on the way."""

    @tool(effect="reads", breaker=None)
    def act() -> None:
        raise ModelFailed(Failure(cls=FailureClass.TRANSIENT, type="rate_limited", message="429"))

    run = planned(with_tools(deps, act), a_step())
    slot_of(deps).carry(None)
    assert deps.live.runs.states(run)[StepId("a")].state == "parked"


def test_a_secret_in_an_exception_reaches_neither_log_nor_record(deps: Deps, caplog: pytest.LogCaptureFixture) -> None:
    """R38."""

    @tool(effect="reads", breaker=None)
    def act(ctx: ToolContext) -> None:
        raise ValueError(f"bad token {ctx.secret('token')}")

    run = planned(with_tools(deps, act), a_step())
    slot_of(deps).carry(None)
    assert "s3cr3t-value" not in caplog.text + str(outcome_of(deps, run))
    assert "bad token ***" in caplog.text


def test_what_fails_after_a_commit_does_not_lose_the_step_it_claimed(
    deps: Deps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: the slot holds the next step already."""

    @tool(effect="pure")
    def act() -> int:
        return 1

    run = planned(with_tools(deps, act), a_step("a"), a_step("b", needs=(StepId("a"),)))
    monkeypatch.setattr(deps.record.outcomes, "put_soon", unreachable)
    slot_of(deps).carry(None)
    assert ended(deps, run).status is RunStatus.SUCCEEDED


def test_messages_that_can_not_be_sent_fail_nobody() -> None:
    """R6: a producer whose broker is away; the sweeper sends them."""
    send(make_app("redis://127.0.0.1:1/0"), [Wake("r", "a")])


def test_a_heartbeat_goes_on_whatever_happens(deps: Deps, monkeypatch: pytest.MonkeyPatch) -> None:
    """R6: without one a worker loses every step it takes."""
    beats = threading.Semaphore(0)

    def broken(*_: object) -> Any:
        beats.release()
        raise ValueError("not thought of")

    monkeypatch.setattr(deps.live.steps, "renew", broken)
    deps.settings = deps.settings.model_copy(update={"heartbeat": 0.001})
    heart = Heartbeat(deps, Holding(), HERE, 4)
    heart.start()
    assert all(beats.acquire(timeout=10) for _ in range(3))
    heart.stop()


def test_a_worker_that_drains_takes_no_slots_from_the_others(deps: Deps) -> None:
    """R32: its leases are not counted against free slots elsewhere."""
    holding = Holding()
    run = planned(deps, *(a_step(f"s{i}") for i in range(8)))
    for _ in range(4):
        holding.add(claim(deps))
    holding.stopping.set()
    Heartbeat(deps, holding, HERE, 4).beat()
    deps.live.steps.renew(Place("w9", "main", 30.0), 2, 60, [])
    deps.live.client.delete(f"{deps.live.keys.namespace}:told:main")
    assert len(deps.live.steps.untold()) == 2
    assert run


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


def test_a_call_that_was_refused_before_it_was_made_is_not_counted_as_made_again(deps: Deps) -> None:
    """R8, R29: only calls whose end is unknown are listed."""
    run = asked(deps)
    attempt = claim(deps)
    model = ScriptedModel([], time_scale=0.0)
    for _ in range(MODEL_BREAKER.failures):
        deps.live.breakers.tally(f"model:{model.name}", MODEL_BREAKER, good=False)
    request = ModelRequest(purpose="step", messages=(Message(role="user", text="hello"),))
    for _ in range(2):
        with pytest.raises(ModelFailed):
            deps.portal.run(LedgeredModel(model, attempt, deps).complete(request))
    (row,) = deps.record.ledger.rows(run)
    assert (row.state, row.reissues) == ("failed", 0)


def test_a_tool_that_heeds_a_lost_lease_puts_no_part_on_record(deps: Deps) -> None:
    """R3: what it gives then may be a part."""
    holding = Holding()

    @tool(effect="reads", breaker=None)
    def act(ctx: ToolContext) -> str:
        assert deps.live.steps.reap("main", losses=3)[0] == 1
        claim(deps)
        for key, why in deps.live.steps.renew(AT_ONCE, 1, 60, holding.held()).items():
            holding.cancel(key, why)
        return "a part" if ctx.is_cancelled() else "the whole"

    run = planned(with_tools(deps, act), a_step())
    Slot(deps, holding, AT_ONCE, Nobody()).carry(None)
    assert deps.record.outcomes.get(run, StepId("a")) is None


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([a_step("a b")], "bad_id"),
        ([a_step("a/b")], "bad_id"),
        ([a_step("a#")], "bad_id"),
        ([a_step("a,b")], "bad_id"),
        ([a_step("join.1")], "bad_id"),
        ([a_step("a"), a_step("a")], "duplicate_id"),
        ([a_step("a", needs=(StepId("a"),))], "unknown_need"),
        ([a_step("a", needs=(StepId("b"),)), a_step("b", needs=(StepId("a"),))], "unknown_need"),
        ([a_step("a", kind="join")], "bad_kind"),
        ([a_step("a", lane="gpu, cpu")], "bad_lane"),
    ],
)
def test_a_plan_that_would_break_the_live_state_is_refused_as_an_item(deps: Deps, steps: list[Step], code: str) -> None:
    """R11, R35: a program may submit any plan; the rest of the batch is accepted."""
    good = Plan(steps=(a_step(),))
    answers = submit.submit([(Goal(objective="x"), Plan(steps=tuple(steps))), (Goal(objective="y"), good)], deps)
    assert isinstance(answers[0], PlanRejected)
    assert code in {problem.code for problem in answers[0].problems if isinstance(problem, Problem)}
    assert isinstance(answers[1], Handle)


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
