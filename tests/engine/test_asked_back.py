"""Calls whose worker died over them: asked back from a provider that keeps replies, before they are issued again."""

import asyncio
from pathlib import Path

import pytest

from fleet.core.attempt import Attempt
from fleet.core.budget import Usage
from fleet.core.outcome import Failure, FailureClass
from fleet.engine.calls import BROKEN_OFF, LedgeredModel
from fleet.engine.deps import Deps
from fleet.llm.port import Message, ModelFailed, ModelRequest, Recalled
from fleet.llm.scripted import ScriptedModel, Turn
from fleet.store.sql.ledger import CallKey, CallRow
from tests.engine.fleetlet import asked, claim

PLAN = Turn(purpose="planner", text="1. join()", usage=Usage(calls=1, input_tokens=5, output_tokens=3, money=0.5))
ASKED = ModelRequest(purpose="planner", messages=(Message(role="user", text="Goal: ask"),))


class Away(ScriptedModel):
    """A provider that can't be asked what it keeps. again: whether it may be later."""

    again = True

    async def recall(self, key: str) -> Recalled:
        cls = FailureClass.TRANSIENT if self.again else FailureClass.PERMANENT
        raise ModelFailed(Failure(cls=cls, type="away", message=f"nothing is known of {key}"))


@pytest.fixture
def attempt(deps: Deps) -> Attempt:
    asked(deps)
    return claim(deps)


def key_of(attempt: Attempt) -> CallKey:
    return CallKey(attempt.context.run, attempt.step.id, 0)


def died(attempt: Attempt, deps: Deps, model: ScriptedModel | None = None) -> None:
    """A worker wrote the call ahead and died: before it was made, or, with a model, after it was answered."""
    key = key_of(attempt)
    row = deps.record.ledger.open(key, "model", "scripted", Usage(), ":".join(map(str, key)), "h")
    if model is not None:
        asyncio.run(model.complete(ASKED.model_copy(update={"key": row.idempotency_key})))


def row_of(attempt: Attempt, deps: Deps) -> CallRow:
    (row,) = deps.record.ledger.rows(attempt.context.run)
    return row


def completed(model: ScriptedModel, attempt: Attempt, deps: Deps) -> str:
    return asyncio.run(LedgeredModel(model, attempt, deps).complete(ASKED)).text


def test_a_reply_that_the_provider_keeps_is_not_asked_for_again(
    deps: Deps, attempt: Attempt, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """R1, R26: the worker died between the answer and its record; nobody pays twice, and what it cost is counted."""
    caplog.set_level("INFO", "fleet.scripted")
    model = ScriptedModel([PLAN], store=tmp_path / "replies")
    died(attempt, deps, model)
    assert completed(model, attempt, deps) == "1. join()"
    row = row_of(attempt, deps)
    assert (row.state, row.reissues, row.usage) == ("done", 0, PLAN.usage)
    assert len(caplog.messages) == 1


def test_a_reply_that_is_kept_streams_as_well(deps: Deps, attempt: Attempt, tmp_path: Path) -> None:
    """R1."""
    model = ScriptedModel([PLAN], store=tmp_path / "replies")
    died(attempt, deps, model)

    async def items() -> list[object]:
        return [item async for item in LedgeredModel(model, attempt, deps).stream(ASKED)]

    assert asyncio.run(items())[0] == "1. join()"
    assert row_of(attempt, deps).reissues == 0


def test_a_call_that_never_reached_the_provider_is_not_one_that_was_issued_again(
    deps: Deps, attempt: Attempt, tmp_path: Path
) -> None:
    """R8."""
    died(attempt, deps)
    assert completed(ScriptedModel([PLAN], store=tmp_path / "replies"), attempt, deps) == "1. join()"
    assert (row_of(attempt, deps).reissues, row_of(attempt, deps).usage.calls) == (0, 1)


def test_a_provider_that_keeps_nothing_is_asked_again_and_that_is_counted_and_listed(
    deps: Deps, attempt: Attempt
) -> None:
    """R8."""
    model = ScriptedModel([PLAN])
    died(attempt, deps, model)
    assert completed(model, attempt, deps) == "1. join()"
    assert [row.key for row in deps.record.ledger.reissued(attempt.context.run)] == [key_of(attempt)]


def test_a_call_that_was_broken_off_is_asked_back_too(deps: Deps, attempt: Attempt, tmp_path: Path) -> None:
    """R26: it has been counted as a call already."""
    model = ScriptedModel([PLAN], store=tmp_path / "replies")
    died(attempt, deps, model)
    deps.record.ledger.failed(key_of(attempt), BROKEN_OFF, Usage(calls=1))
    assert completed(model, attempt, deps) == "1. join()"
    row = row_of(attempt, deps)
    assert (row.state, row.reissues, row.usage) == ("done", 0, PLAN.usage)


def test_while_the_provider_can_not_be_asked_the_call_is_not_issued_again(deps: Deps, attempt: Attempt) -> None:
    """R1: the step tries later, and the call stays in doubt until then."""
    died(attempt, deps)
    with pytest.raises(ModelFailed) as caught:
        completed(Away([PLAN]), attempt, deps)
    assert caught.value.failure.retryable
    assert (row_of(attempt, deps).state, row_of(attempt, deps).reissues) == ("open", 0)


def test_a_provider_that_will_never_tell_holds_no_goal_up(
    deps: Deps, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5."""
    monkeypatch.setattr(Away, "again", False)
    died(attempt, deps)
    assert completed(Away([PLAN]), attempt, deps) == "1. join()"
    assert row_of(attempt, deps).reissues == 1
