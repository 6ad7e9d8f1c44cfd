"""Several models as one."""

import asyncio
from typing import Any

import pytest

from fleet.core.outcome import FailureClass
from fleet.llm.fallback import FallbackModel
from fleet.llm.port import Message, ModelFailed, ModelRequest
from fleet.llm.scripted import Fail, ScriptedModel, Turn

REQUEST = ModelRequest(purpose="planner", messages=(Message(role="user", text="plan it"),))
GOOD = ScriptedModel([Turn(purpose="planner", text="1. a()\n2. join()")], name="good")
DOWN = Fail(type="server_error", message="it is down")


def broken(fail: Fail) -> ScriptedModel:
    return ScriptedModel([Turn(purpose="planner", text="1. b()\n2. join()", fail=fail)], name="broken")


@pytest.mark.parametrize(
    "fail",
    [
        DOWN,
        Fail(cls=FailureClass.PERMANENT, type="unauthorised", message="no"),
        Fail(cls=FailureClass.PERMANENT, type="quota_exceeded", message="no"),
        Fail(cls=FailureClass.PERMANENT, type="unconfigured", message="no"),
    ],
)
def test_the_next_model_answers_where_one_can_not(read: Any, fail: Fail) -> None:
    model = FallbackModel([broken(fail), GOOD])
    assert asyncio.run(model.complete(REQUEST)).model == "good"
    items, failed = asyncio.run(read(model, REQUEST))
    assert failed is None
    assert items[:-1] == ["1. a()\n", "2. join()"]
    assert model.name == "broken,good"


def test_a_request_that_is_wrong_is_not_asked_twice(read: Any) -> None:
    bad = Fail(cls=FailureClass.PERMANENT, type="bad_request", message="no")
    model = FallbackModel([broken(bad), GOOD])
    with pytest.raises(ModelFailed, match="no"):
        asyncio.run(model.complete(REQUEST))
    items, failed = asyncio.run(read(model, REQUEST))
    assert items == []
    assert failed is not None


def test_a_stream_that_has_begun_is_not_begun_again(read: Any) -> None:
    """R13: what was streamed may already run; a second plan on top of it would be another."""
    model = FallbackModel([broken(DOWN.model_copy(update={"after_chunks": 1})), GOOD])
    items, failed = asyncio.run(read(model, REQUEST))
    assert items == ["1. b()\n"]
    assert failed is not None
    assert failed.failure.type == "server_error"


def test_the_last_model_s_failure_is_the_answer(read: Any) -> None:
    last = broken(Fail(type="timeout", message="too slow"))
    model = FallbackModel([broken(DOWN), last])
    with pytest.raises(ModelFailed, match="too slow"):
        asyncio.run(model.complete(REQUEST))
    _, failed = asyncio.run(read(model, REQUEST))
    assert failed is not None
    assert failed.failure.type == "timeout"


def test_a_fallback_on_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a model"):
        FallbackModel([])
