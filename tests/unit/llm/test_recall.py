"""Replies that a provider keeps, and what it says of a call whose worker died."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from fleet.core.outcome import FailureClass
from fleet.llm.fallback import FallbackModel
from fleet.llm.limits import Limits
from fleet.llm.port import Message, ModelFailed, ModelRequest, Recalled, Reply
from fleet.llm.providers import PydanticAIModel
from fleet.llm.scripted import Fail, ScriptedModel, Turn
from fleet.llm.select import models_from
from fleet.llm.turns import write_turns
from fleet.settings import Settings

KEY = "r01:plan.1:0"
ASKED = ModelRequest(purpose="planner", messages=(Message(role="user", text="plan it"),), key=KEY)
KEPT = {
    **{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-5-mini"},
    "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "1. join()"}}],
    "metadata": {"fleet_key": KEY},
}


def at(url: str, name: str = "openai:gpt-5-mini", *, store: bool = True) -> PydanticAIModel:
    return PydanticAIModel(name, base_url=url, limits=Limits(store=store))


def talked(provider: Any, respond: Any, talk: Any, **how: Any) -> tuple[Any, list[Any]]:
    """What `talk(model)` gave, and what the server was asked."""

    async def scenario() -> tuple[Any, list[Any]]:
        async with provider(respond) as server:
            model = at(server.url, **how)
            try:
                return await talk(model), server.exchanges
            finally:
                await model.aclose()

    found: tuple[Any, list[Any]] = asyncio.run(scenario())
    return found


def listing(*kept: object) -> Any:
    async def respond(exchange: Any) -> None:
        await exchange.reply(200, {"object": "list", "data": list(kept), "has_more": False})

    return respond


def test_a_reply_is_kept_under_its_key_where_that_is_wanted(provider: Any) -> None:
    async def respond(exchange: Any) -> None:
        await exchange.answer("1. join()")

    _, (asked,) = talked(provider, respond, lambda model: model.complete(ASKED))
    assert (asked.body["store"], asked.body["metadata"]) == (True, {"fleet_key": KEY})
    assert asked.headers["idempotency-key"] == KEY
    _, (plain,) = talked(provider, respond, lambda model: model.complete(ASKED), store=False)
    assert "store" not in plain.body
    assert plain.headers["idempotency-key"] == KEY


def test_a_kept_reply_is_found_by_its_key_with_what_it_cost(provider: Any) -> None:
    """R1, R26."""
    said, (asked,) = talked(provider, listing(KEPT), lambda model: model.recall(KEY))
    assert said.reply.text == "1. join()"
    assert (said.reply.usage.calls, said.reply.usage.input_tokens, said.reply.usage.output_tokens) == (1, 11, 7)
    assert said.reply.usage.money > 0
    where = parse_qs(unquote(urlsplit(asked.asked.partition(" ")[2]).query))
    assert where["metadata[fleet_key]"] == [KEY]


@pytest.mark.parametrize(
    "kept",
    [(), (KEPT | {"metadata": {"fleet_key": "another"}},), (KEPT | {"choices": []},)],
    ids=["none", "another's", "unfinished"],
)
def test_what_is_not_kept_may_have_been_made_all_the_same(provider: Any, kept: tuple[Any, ...]) -> None:
    said, _ = talked(provider, listing(*kept), lambda model: model.recall(KEY))
    assert said == Recalled()


@pytest.mark.parametrize("status", [400, 404, 405])
def test_a_server_that_keeps_nothing_says_nothing(provider: Any, status: int) -> None:
    async def respond(exchange: Any) -> None:
        await exchange.reply(status, {"error": {"message": "no such thing"}})

    said, _ = talked(provider, respond, lambda model: model.recall(KEY), name="qwen")
    assert said == Recalled()


def test_a_provider_that_can_not_be_asked_now_is_asked_later(provider: Any) -> None:
    async def respond(exchange: Any) -> None:
        await exchange.reply(503, {"error": {"message": "away"}})

    with pytest.raises(ModelFailed) as caught:
        talked(provider, respond, lambda model: model.recall(KEY))
    assert caught.value.failure.cls is FailureClass.TRANSIENT


def test_nobody_is_asked_where_nothing_was_to_be_kept(provider: Any) -> None:
    said, asked = talked(provider, listing(KEPT), lambda model: model.recall(KEY), store=False)
    assert (said, asked) == (Recalled(), [])


def test_the_scripted_model_keeps_what_it_was_asked_for_from_then_on(tmp_path: Path) -> None:
    turns = [Turn(purpose="planner", goal="it", text="1. join()", delay_s=3600)]
    asked = ScriptedModel(turns, store=tmp_path / "replies")
    other = ScriptedModel(turns, store=tmp_path / "replies")

    assert asyncio.run(other.recall(KEY)) == Recalled(made=False)
    with pytest.raises(ModelFailed, match="no answer within"):
        asyncio.run(asked.complete(ASKED.model_copy(update={"timeout": 0.01})))
    assert asyncio.run(other.recall(KEY)) == Recalled(
        reply=Reply(text="1. join()", usage=turns[0].usage, model="scripted")
    )
    assert asyncio.run(ScriptedModel(turns).recall(KEY)) == Recalled()


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    model = ScriptedModel([Turn(purpose="planner", fail=Fail(type="down", message="down"))], store=tmp_path)
    with pytest.raises(ModelFailed, match="down"):
        asyncio.run(model.complete(ASKED))
    assert asyncio.run(model.recall(KEY)) == Recalled(made=False)


def test_of_several_models_the_one_that_keeps_the_reply_gives_it(tmp_path: Path) -> None:
    turns = [Turn(purpose="planner", text="1. join()")]
    keeps, not_asked, forgets = (
        ScriptedModel(turns, store=tmp_path / "a"),
        ScriptedModel(turns, store=tmp_path / "b"),
        ScriptedModel(turns),
    )
    asyncio.run(keeps.complete(ASKED))
    found = asyncio.run(FallbackModel([not_asked, keeps]).recall(KEY))
    assert found.reply is not None
    assert asyncio.run(FallbackModel([not_asked]).recall(KEY)) == Recalled(made=False)
    assert asyncio.run(FallbackModel([not_asked, forgets]).recall(KEY)) == Recalled()


def test_the_setting_reaches_the_models(tmp_path: Path) -> None:
    path = tmp_path / "turns.jsonl"
    write_turns(path, [Turn(purpose="planner", text="1. join()")])
    model = models_from(Settings(model_script=path, data=tmp_path, model_store=True)).planner
    assert isinstance(model, ScriptedModel)
    asyncio.run(model.complete(ASKED))
    assert asyncio.run(model.recall(KEY)).reply is not None
