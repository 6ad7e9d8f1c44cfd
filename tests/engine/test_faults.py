"""What slots and workers do when a part fails at a bad moment: nothing hangs, is done twice, or made up."""

import asyncio
import threading
from typing import Any

import pytest
from fleet._apps.tasks.heartbeat import Heartbeat

from fleet.core.attempt import Attempt
from fleet.core.goal import Goal
from fleet.core.ids import StepId
from fleet.core.outcome import Failure, FailureClass
from fleet.core.plan import Plan, Problem, Step
from fleet.core.run import EndReason, RunStatus
from fleet.engine import submit, sweep
from fleet.engine.calls import MODEL_BREAKER, LedgeredModel
from fleet.engine.deps import Deps
from fleet.engine.holding import Hold, Holding
from fleet.engine.slot import RUNNERS, Slot
from fleet.engine.submit import Handle
from fleet.engine.told import Nobody
from fleet.errors import PlanRejected
from fleet.llm.port import Message, ModelFailed, ModelRequest
from fleet.llm.scripted import ScriptedModel
from fleet.store.sql.dead import Wanted
from fleet.store.steps import Place
from fleet.tools.context import ToolContext
from fleet.tools.decorator import tool
from fleet.tools.tool import ToolFailed
from tests.engine.fleetlet import (
    AT_ONCE,
    DONE,
    HERE,
    a_step,
    asked,
    claim,
    ended,
    outcome_of,
    planned,
    slot_of,
    unreachable,
    with_tools,
)


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
    """R5, R10: after five times as many as a tool's step may take."""
    run = planned(deps, a_step())
    deps.live.steps.commit(claim(deps), DONE, HERE, want=False)
    for _ in range(deps.settings.losses * 5):
        assert claim(deps, AT_ONCE).step.id == "join.1"
        sweep.sweep(deps)
    assert ended(deps, run).reason is EndReason.JOINER_FAILED
    assert [letter.step_id for letter in deps.record.dead.list(Wanted(run=run))] == ["join.1"]


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
    monkeypatch.setattr(deps.record.outcomes, "put_behind", unreachable)
    slot_of(deps).carry(None)
    assert ended(deps, run).status is RunStatus.SUCCEEDED


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


def test_a_worker_that_stops_hands_back_what_does_not_end(deps: Deps) -> None:
    """R32: the step is ready for others at once, and has lost no worker."""
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
    holding.hand_back()
    thread.join(10)
    again = claim(deps)
    assert (again.number, again.losses) == (2, 0)
    assert deps.record.outcomes.get(run, StepId("a")) is None


def test_slots_that_are_stuck_are_not_offered_and_a_quarter_of_them_ends_the_worker(deps: Deps) -> None:
    """R5: a tool that hangs keeps its thread for ever; messages must not go to slots that are none."""
    holding, drained = Holding(), threading.Event()
    planned(deps, *(a_step(f"s{i}") for i in range(2)))
    heart = Heartbeat(deps, holding, HERE, 8, drained.set)
    holding.add(claim(deps)).cancel("DEADLINE")
    heart.beat()
    assert [worker.slots for worker in deps.live.workers()] == [7]
    assert not drained.is_set()
    holding.add(claim(deps)).cancel("STALE")
    heart.beat()
    assert drained.is_set()


@pytest.mark.parametrize("error", [ToolFailed("cancelled", "it was told to stop"), ValueError("half done")])
def test_an_error_by_which_a_tool_heeds_that_its_worker_stops_is_no_failure(deps: Deps, error: Exception) -> None:
    """R32: the step is handed back, and does not end as failed."""
    holding = Holding()

    @tool(effect="reads", breaker=None)
    def act(ctx: ToolContext) -> str:
        holding.stopping.set()
        holding.hand_back()
        if ctx.cancelled:
            raise error
        return "the whole"

    run = planned(with_tools(deps, act), a_step())
    slot_of(deps, holding).carry(None)
    assert deps.record.outcomes.get(run, StepId("a")) is None
    assert deps.live.runs.states(run)[StepId("a")].state == "ready"


def test_what_was_told_to_stop_before_it_began_is_not_run(deps: Deps) -> None:
    """R22 in part: a heartbeat may hear of it between the claim and the call."""
    calls: list[int] = []

    @tool(effect="pure")
    def act() -> int:
        calls.append(1)
        return 1

    class Hasty(Holding):
        """Hears at once that the first attempt is no more wanted."""

        def add(self, attempt: Attempt) -> Hold:
            hold = super().add(attempt)
            if attempt.number == 1 and attempt.step.kind == "tool":
                hold.cancel("STALE")
            return hold

    run = planned(with_tools(deps, act), a_step())
    slot_of(deps, Hasty()).carry(None)
    assert ended(deps, run).status is RunStatus.SUCCEEDED
    assert len(calls) == 1
    assert [e.type.value for e in deps.live.streams.read(run)].count("step.parked") == 1
