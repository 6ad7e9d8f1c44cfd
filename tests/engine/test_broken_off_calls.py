"""Model calls whose attempt is told to stop: they end at once, and the ledger says what is true of them."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

import pytest

from fleet.core.attempt import Attempt
from fleet.core.budget import Usage
from fleet.core.ids import RunId
from fleet.core.outcome import FailureClass, Status
from fleet.core.run import RunStatus
from fleet.engine import cancel, plan
from fleet.engine.deps import Deps
from fleet.engine.holding import Hold, Holding
from fleet.engine.moves import Park, Settle, Unwanted
from fleet.engine.portal import Portal, Stop
from fleet.llm.port import ModelRequest, Reply
from fleet.llm.scripted import ScriptedModel, Turn
from fleet.llm.select import Models
from fleet.store.sql.ledger import CallRow, Ledger
from fleet.tools.decorator import tool
from tests.engine.fleetlet import HERE, asked, claim, ended, slot_of, with_tools

SLOW = 60.0


class Announced(ScriptedModel):
    """Says when it was asked, and for what."""

    def __init__(self, *turns: Turn) -> None:
        super().__init__(turns)
        self.asked = {"planner": threading.Event(), "joiner": threading.Event()}

    async def stream(self, request: ModelRequest) -> AsyncIterator[str | Reply]:
        self.asked[request.purpose].set()
        async for item in super().stream(request):
            yield item


class LateToOpen(Ledger):
    """A schedule: the row is written when the attempt has been told to stop."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger._db)
        self.opening, self.go_on = threading.Event(), threading.Event()

    def open(self, *args: Any) -> CallRow:
        self.opening.set()
        assert self.go_on.wait(10)
        return super().open(*args)


def planner(delay: float = SLOW) -> Turn:
    return Turn(purpose="planner", text="1. act()\n2. join()", delay_s=delay)


@tool(effect="pure")
def act() -> int:
    """Act."""
    return 1


def model_of(deps: Deps, *turns: Turn) -> Announced:
    with_tools(deps, act)
    model = Announced(*turns)
    deps.models = Models(planner=model, step=model)
    return model


@contextmanager
def carried(deps: Deps, holding: Holding) -> Iterator[None]:
    """A slot at work in a thread, until it has nothing more to do."""
    thread = threading.Thread(target=slot_of(deps, holding).carry, args=(None,))
    thread.start()
    yield
    thread.join(10)
    assert not thread.is_alive()


def heartbeat(deps: Deps, holding: Holding) -> None:
    for key, why in deps.live.steps.renew(HERE, 4, 60, holding.held()).items():
        holding.cancel(key, why)


def only_row(deps: Deps, run: RunId) -> CallRow:
    (row,) = deps.record.ledger.rows(run)
    return row


def stopped(attempt: Attempt, why: str) -> Hold:
    hold = Hold(attempt)
    hold.cancel(why)
    return hold


def test_the_planner_of_a_cancelled_run_is_broken_off_and_counted(deps: Deps) -> None:
    """R22, R26: it may be billed, and nobody will ask again."""
    model, holding = model_of(deps, planner()), Holding()
    run = asked(deps)
    with carried(deps, holding):
        assert model.asked["planner"].wait(10)
        assert cancel.cancel(run, deps) is RunStatus.CANCELLING
        heartbeat(deps, holding)
    assert ended(deps, run).status is RunStatus.CANCELLED
    row = only_row(deps, run)
    assert row.failure is not None
    assert (row.state, row.failure.type, row.failure.cls) == ("failed", "broken_off", FailureClass.IN_DOUBT)
    assert deps.record.goals.of_run(run).usage.calls == 1


def test_the_joiner_of_a_cancelled_run_is_broken_off_and_counted(deps: Deps) -> None:
    """R22, R26."""
    joiner = Turn(purpose="joiner", text="Action: Finish(x)", delay_s=SLOW)
    model, holding = model_of(deps, planner(0.0), joiner), Holding()
    run = asked(deps)
    with carried(deps, holding):
        assert model.asked["joiner"].wait(10)
        cancel.cancel(run, deps)
        heartbeat(deps, holding)
    assert ended(deps, run).status is RunStatus.CANCELLED
    assert deps.record.goals.of_run(run).usage.calls == 2


def test_a_call_that_was_broken_off_is_counted_as_made_again(deps: Deps) -> None:
    """R8, R26, R32: a worker that stops hands the step back; its call may be billed twice."""
    model, holding = model_of(deps, planner()), Holding()
    run = asked(deps)
    with carried(deps, holding):
        assert model.asked["planner"].wait(10)
        holding.stopping.set()
        holding.hand_back()
    assert deps.live.runs.states(run)["plan.1"].state == "ready"  # type: ignore[index]
    model_of(deps, planner(0.0), Turn(purpose="joiner", text="Action: Finish(x)"))
    slot_of(deps).carry(None)
    assert ended(deps, run).status is RunStatus.SUCCEEDED
    row = deps.record.ledger.rows(run)[1]
    assert (row.key.step, row.state, row.reissues, row.usage.calls) == ("plan.1", "done", 1, 2)


def test_an_attempt_that_was_told_to_stop_before_makes_no_call(deps: Deps) -> None:
    """R22: however early the word comes, it is not missed."""
    model = model_of(deps, planner())
    run = asked(deps)
    attempt = claim(deps)
    result = plan.run(stopped(attempt, "CANCELLED"), deps)
    assert isinstance(result, Settle)
    assert result.outcome.status is Status.CANCELLED
    with pytest.raises(Unwanted, match="STALE"):
        plan.run(stopped(attempt, "STALE"), deps)
    assert not model.asked["planner"].is_set()
    assert deps.record.ledger.usage(run) == Usage()


def test_a_planner_over_its_time_tries_again_later(deps: Deps) -> None:
    model_of(deps, planner())
    asked(deps)
    result = plan.run(stopped(claim(deps), "DEADLINE"), deps)
    assert isinstance(result, Park)
    assert result.reason.startswith("timeout: ")


def test_a_call_that_was_written_ahead_and_never_made_costs_nothing(deps: Deps) -> None:
    """R26."""
    model = model_of(deps, planner())
    ledger = deps.record.ledger = LateToOpen(deps.record.ledger)
    run = asked(deps)
    hold = Hold(claim(deps))
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(plan.run(hold, deps)))
    thread.start()
    assert ledger.opening.wait(10)
    hold.cancel("CANCELLED")
    ledger.go_on.set()
    thread.join(10)
    row = only_row(deps, run)
    assert row.failure is not None
    assert (row.state, row.failure.type, row.usage.calls) == ("failed", "not_made", 0)
    assert not model.asked["planner"].is_set()
    assert isinstance(found[0], Settle)


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = Portal()
    yield portal
    portal.close()


def at_once(stop: Stop) -> None:
    stop()


def test_work_that_is_stopped_as_it_begins_ends_and_is_not_waited_for(portal: Portal) -> None:
    async def items() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(SLOW)

    with pytest.raises(CancelledError):
        portal.run(asyncio.sleep(SLOW), at_once)
    with pytest.raises(CancelledError):
        list(portal.iterate(items(), at_once))


def test_work_that_does_not_heed_is_left_behind(portal: Portal) -> None:
    over = asyncio.Event()

    async def stubborn() -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    stops: list[Stop] = []

    def later(stop: Stop) -> None:
        stops.append(stop)
        portal.loop().call_soon_threadsafe(stop)

    with pytest.raises(CancelledError):
        portal.run(stubborn(), later)
    portal.loop().call_soon_threadsafe(over.set)


def test_whoever_stops_reading_ends_the_source(portal: Portal) -> None:
    ends = threading.Event()

    async def items() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
                await asyncio.sleep(0)
        finally:
            ends.set()

    reader = portal.iterate(items())
    assert next(reader) == 1
    reader.close()  # type: ignore[attr-defined]
    assert ends.wait(10)
