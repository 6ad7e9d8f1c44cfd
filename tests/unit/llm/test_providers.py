"""The adapter to real providers, against a server that speaks the protocol of most of them."""

import asyncio
import logging
import socket
from contextlib import aclosing
from typing import Any

import pytest
from pydantic import SecretStr

from fleet.core.budget import Usage
from fleet.core.outcome import FailureClass
from fleet.llm.limits import Limits
from fleet.llm.port import Message, ModelFailed, ModelRequest, Reply
from fleet.llm.providers import PydanticAIModel
from fleet.llm.select import models_from
from fleet.settings import Settings

KEY = "sk-very-secret-0123456789"
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


def asking(text: str = "what?", **more: Any) -> ModelRequest:
    return ModelRequest(purpose="planner", messages=(Message(role="user", text=text),), **more)


def at(url: str, name: str = "qwen-0.5b", **limits: Any) -> PydanticAIModel:
    return PydanticAIModel(name, base_url=url, key=SecretStr(KEY), limits=Limits(**limits))


async def failing(model: PydanticAIModel, request: ModelRequest) -> ModelFailed:
    try:
        with pytest.raises(ModelFailed) as caught:
            await model.complete(request)
    finally:
        await model.aclose()
    return caught.value


async def answer(exchange: Any) -> None:
    await exchange.answer("Forty-two.")


def test_a_reply_has_its_text_its_usage_and_its_finish(provider: Any) -> None:
    async def scenario() -> Reply:
        async with provider(answer) as server:
            model = at(server.url)
            reply = await model.complete(asking())
            await model.aclose()
            return reply

    reply = asyncio.run(scenario())
    assert reply == Reply(
        text="Forty-two.", usage=Usage(calls=1, input_tokens=11, output_tokens=7), model="qwen-0.5b", finish="stop"
    )


def test_a_request_says_all_that_was_asked_for(provider: Any) -> None:
    async def scenario() -> Any:
        async with provider(answer) as server:
            model = at(server.url)
            said = (
                Message(role="system", text="Be brief."),
                Message(role="user", text="one"),
                Message(role="assistant", text="two"),
                Message(role="user", text="three"),
            )
            await model.complete(
                ModelRequest(purpose="step", messages=said, max_tokens=77, temperature=0.5, key="run-1/step-2/0")
            )
            await model.aclose()
            return server.exchanges[0]

    exchange = asyncio.run(scenario())
    assert [(m["role"], m["content"]) for m in exchange.body["messages"]] == [
        ("system", "Be brief."),
        ("user", "one"),
        ("assistant", "two"),
        ("user", "three"),
    ]
    assert exchange.body["max_tokens"] == 77
    assert exchange.body["temperature"] == 0.5
    assert exchange.headers["idempotency-key"] == "run-1/step-2/0"
    assert exchange.headers["authorization"] == f"Bearer {KEY}"
    assert "response_format" not in exchange.body


def test_a_reply_schema_is_asked_for_as_json_schema_and_not_as_a_tool(provider: Any) -> None:
    async def scenario() -> dict[str, Any]:
        async with provider(answer) as server:
            model = at(server.url)
            await model.complete(asking(reply_schema=SCHEMA))
            await model.aclose()
            return dict(server.exchanges[0].body)

    body = asyncio.run(scenario())
    assert body["response_format"]["type"] == "json_schema"
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"] == SCHEMA["properties"]
    assert schema["required"] == ["answer"]
    assert "tools" not in body


def test_the_settings_bound_what_a_request_may_ask_for(provider: Any) -> None:
    async def scenario() -> dict[str, Any]:
        async with provider(answer) as server:
            model = at(server.url, max_tokens=50)
            await model.complete(asking(max_tokens=4000))
            await model.aclose()
            return dict(server.exchanges[0].body)

    assert asyncio.run(scenario())["max_tokens"] == 50


def test_an_answer_cut_by_max_tokens_says_so(provider: Any) -> None:
    async def cut(exchange: Any) -> None:
        await exchange.answer('{"answ', finish="length")

    async def scenario() -> Reply:
        async with provider(cut) as server:
            model = at(server.url)
            reply = await model.complete(asking())
            await model.aclose()
            return reply

    assert asyncio.run(scenario()).finish == "length"


def test_each_delta_arrives_before_the_next_is_sent(provider: Any) -> None:
    """R13: a step starts while the planner writes, so a line must not wait for the one behind it."""

    async def scenario() -> list[str | Reply]:
        received = asyncio.Event()

        async def respond(exchange: Any) -> None:
            await exchange.begin()
            await exchange.delta('1. search("a")\n')
            await received.wait()
            await exchange.delta("2. join()")
            await exchange.finish_stream()

        async with provider(respond) as server:
            model = at(server.url)
            items: list[str | Reply] = []
            async for item in model.stream(asking()):
                items.append(item)
                received.set()
            await model.aclose()
            return items

    *deltas, reply = asyncio.run(scenario())
    assert deltas == ['1. search("a")\n', "2. join()"]
    assert reply == Reply(
        text='1. search("a")\n2. join()',
        usage=Usage(calls=1, input_tokens=11, output_tokens=7),
        model="qwen-0.5b",
        finish="stop",
    )


@pytest.mark.parametrize(
    ("status", "body", "cls", "kind"),
    [
        (
            429,
            {"error": {"message": "slow down", "code": "rate_limit_exceeded"}},
            FailureClass.TRANSIENT,
            "rate_limited",
        ),
        (429, {"error": {"message": "pay", "code": "insufficient_quota"}}, FailureClass.PERMANENT, "quota_exceeded"),
        (500, {"error": {"message": "oops"}}, FailureClass.TRANSIENT, "server_error"),
        (502, {"error": "bad gateway"}, FailureClass.TRANSIENT, "server_error"),
        (503, {"error": {"message": "later"}}, FailureClass.TRANSIENT, "unavailable"),
        (408, {"error": {"message": "too slow"}}, FailureClass.TRANSIENT, "broken_reply"),
        (400, {"error": {"message": "no such parameter"}}, FailureClass.PERMANENT, "bad_request"),
        (400, {"error": {"message": "m", "code": "context_length_exceeded"}}, FailureClass.PERMANENT, "too_long"),
        (404, {"error": {"message": "no such model"}}, FailureClass.PERMANENT, "unknown_model"),
        (418, {"error": {"message": "a teapot"}}, FailureClass.PERMANENT, "bad_request"),
    ],
)
def test_a_refusal_tells_the_engine_who_deals_with_it(
    provider: Any, status: int, body: object, cls: FailureClass, kind: str
) -> None:
    """R30: transient errors go to the engine, permanent ones to a replan; the SDK retries nothing behind its back."""

    async def respond(exchange: Any) -> None:
        await exchange.reply(status, body, Retry_After="7")

    async def scenario() -> tuple[ModelFailed, int]:
        async with provider(respond) as server:
            failed = await failing(at(server.url), asking())
            return failed, len(server.exchanges)

    failed, requests = asyncio.run(scenario())
    assert (failed.failure.cls, failed.failure.type) == (cls, kind)
    assert failed.failure.retry_after == (7.0 if cls is FailureClass.TRANSIENT else None)
    assert failed.failure.message.startswith(f"qwen-0.5b: status {status}: ")
    assert requests == 1


@pytest.mark.parametrize("status", [401, 403, 400, 500])
def test_no_failure_prints_the_key(provider: Any, status: int) -> None:
    """R38: a provider that repeats the key it was given does not get it into a log or a prompt."""

    async def respond(exchange: Any) -> None:
        await exchange.reply(status, {"error": {"message": f"Incorrect API key provided: {KEY}"}})

    async def scenario() -> ModelFailed:
        async with provider(respond) as server:
            return await failing(at(server.url), asking())

    failed = asyncio.run(scenario())
    assert KEY not in failed.failure.message + str(failed) + repr(failed.__cause__)
    assert failed.__suppress_context__
    if status in (401, 403):
        assert failed.failure.type == "unauthorised"
        assert failed.failure.cls is FailureClass.PERMANENT


def test_a_key_of_another_provider_is_never_sent_to_a_base_url(provider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """R38: OPENAI_API_KEY in the environment is meant for OpenAI, not for whatever stands at the URL."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    async def scenario(name: str) -> str:
        async with provider(answer) as server:
            model = PydanticAIModel(name, base_url=server.url)
            await model.complete(asking())
            await model.aclose()
            return str(server.exchanges[0].headers["authorization"])

    for name in ("qwen2.5:0.5b", "openai:gpt-5-mini", "vllm:qwen", "ollama:qwen2.5:0.5b"):
        assert KEY not in asyncio.run(scenario(name))


@pytest.mark.parametrize(
    ("name", "model"),
    [("qwen2.5:0.5b", "qwen2.5:0.5b"), ("openai:gpt-5-mini", "gpt-5-mini"), ("ollama:qwen2.5:0.5b", "qwen2.5:0.5b")],
)
def test_a_base_url_takes_any_name_of_a_model(provider: Any, name: str, model: str) -> None:
    async def scenario() -> str:
        async with provider(answer) as server:
            asked = at(server.url, name)
            await asked.complete(asking())
            await asked.aclose()
            return str(server.exchanges[0].body["model"])

    assert asyncio.run(scenario()) == model


def test_a_server_that_does_not_answer_is_a_timeout(provider: Any) -> None:
    """R13: a planner that hangs ends within its timeout."""

    async def hang(exchange: Any) -> None:
        await asyncio.Event().wait()

    async def scenario() -> ModelFailed:
        async with provider(hang) as server:
            return await failing(at(server.url), asking("hang", timeout=0.2))

    failure = asyncio.run(scenario()).failure
    assert (failure.cls, failure.type) == (FailureClass.TRANSIENT, "timeout")
    assert "qwen-0.5b" in failure.message


@pytest.mark.parametrize("limits", [{"silence": 0.2}, {"timeout": 0.3}])
def test_a_stream_that_falls_silent_is_a_timeout(provider: Any, read: Any, limits: dict[str, float]) -> None:
    """R13: a planner that dies in the middle ends in a failure; what it had said was already passed on."""

    async def respond(exchange: Any) -> None:
        await exchange.begin()
        await exchange.delta("1. search()\n")
        await asyncio.Event().wait()

    async def scenario() -> tuple[list[str | Reply], ModelFailed]:
        async with provider(respond) as server:
            model = at(server.url, **limits)
            ended: tuple[list[str | Reply], ModelFailed] = await read(model, asking("hang"))
            await model.aclose()
        return ended

    items, failed = asyncio.run(scenario())
    assert items == ["1. search()\n"]
    assert (failed.failure.cls, failed.failure.type) == (FailureClass.TRANSIENT, "timeout")


@pytest.mark.parametrize("how", ["connection", "silently"])
def test_a_stream_that_is_cut_is_no_reply(provider: Any, read: Any, how: str) -> None:
    """R13: a cut plan must not pass for a short one, also where a proxy ends the response properly."""

    async def respond(exchange: Any) -> None:
        await exchange.begin()
        await exchange.delta("1. search()\n")
        if how == "silently":
            exchange.writer.write(b"0\r\n\r\n")
            await exchange.writer.drain()
        else:
            exchange.writer.close()

    async def scenario() -> tuple[list[str | Reply], ModelFailed]:
        async with provider(respond) as server:
            model = at(server.url)
            ended: tuple[list[str | Reply], ModelFailed] = await read(model, asking())
            await model.aclose()
        return ended

    items, failed = asyncio.run(scenario())
    assert items == ["1. search()\n"]
    assert failed.failure.cls is FailureClass.TRANSIENT
    assert failed.failure.type == ("broken_reply" if how == "silently" else "connection")


def test_a_reader_who_leaves_a_stream_closes_its_connection(provider: Any) -> None:
    """R37: no connection leaks when a plan is cancelled while it is written."""

    async def respond(exchange: Any) -> None:
        await exchange.begin()
        await exchange.delta("1. search()\n")
        await asyncio.Event().wait()

    async def scenario() -> None:
        async with provider(respond) as server:
            model = at(server.url)
            async with aclosing(model.stream(asking("hang"))) as items:  # type: ignore[type-var]
                assert await anext(items) == "1. search()\n"
            await server.left()
            await model.aclose()

    asyncio.run(scenario())


def test_a_cancelled_call_closes_its_connection(provider: Any) -> None:
    """R22, R37: cancelling stops the call itself, and leaves nothing open."""

    async def scenario() -> None:
        asked = asyncio.Event()

        async def hang(exchange: Any) -> None:
            asked.set()
            await asyncio.Event().wait()

        async with provider(hang) as server:
            model = at(server.url)
            call = asyncio.create_task(model.complete(asking("hang")))
            await asked.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await server.left()
            await model.aclose()

    asyncio.run(scenario())


def test_nobody_at_the_address_is_transient() -> None:
    async def scenario() -> ModelFailed:
        server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        return await failing(at(f"http://127.0.0.1:{port}/v1"), asking())

    failure = asyncio.run(scenario()).failure
    assert (failure.cls, failure.type) == (FailureClass.TRANSIENT, "connection")


def test_an_answer_that_is_no_json_is_transient(provider: Any) -> None:
    async def respond(exchange: Any) -> None:
        exchange.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n<htm>")
        await exchange.writer.drain()

    async def scenario() -> ModelFailed:
        async with provider(respond) as server:
            return await failing(at(server.url), asking())

    failure = asyncio.run(scenario()).failure
    assert (failure.cls, failure.type) == (FailureClass.TRANSIENT, "broken_reply")


def test_an_answer_that_was_withheld_is_permanent_and_billed(provider: Any) -> None:
    """R26: a call that came to nothing is counted all the same."""

    async def respond(exchange: Any) -> None:
        await exchange.answer("", finish="content_filter")

    async def scenario() -> ModelFailed:
        async with provider(respond) as server:
            return await failing(at(server.url), asking())

    failed = asyncio.run(scenario())
    assert (failed.failure.cls, failed.failure.type) == (FailureClass.PERMANENT, "content_filter")
    assert failed.usage == Usage(calls=1, input_tokens=11, output_tokens=7)


def test_a_known_model_is_priced_and_an_unknown_one_said_once(provider: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(name: str) -> float:
        async with provider(answer) as server:
            model = at(server.url, name)
            money = [(await model.complete(asking())).usage.money for _ in range(2)]
            await model.aclose()
            return sum(money)

    with caplog.at_level(logging.WARNING, "fleet.llm"):
        assert asyncio.run(scenario("openai:gpt-5-mini")) > 0
        assert not caplog.records
        assert asyncio.run(scenario("qwen-0.5b")) == 0
    assert [record.getMessage() for record in caplog.records] == [
        "no price is known for qwen-0.5b: its calls count as 0 dollars"
    ]


def test_one_model_serves_one_loop_after_another(provider: Any) -> None:
    """R37: no closed event loop, whichever loop asks."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        model = at(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")

        async def scenario() -> str:
            async with provider(answer, listening.dup()):
                reply = await model.complete(asking())
                await model.aclose()
                return reply.text

        assert [asyncio.run(scenario()) for _ in range(3)] == ["Forty-two."] * 3


def test_calls_at_once_share_a_model(provider: Any) -> None:
    async def scenario() -> set[str]:
        async with provider(answer) as server:
            model = at(server.url)
            replies = await asyncio.gather(*(model.complete(asking(str(n))) for n in range(20)))
            await model.aclose()
            return {reply.text for reply in replies}

    assert asyncio.run(scenario()) == {"Forty-two."}


def test_models_of_one_name_or_several_are_closed_together(provider: Any) -> None:
    """R37: no connection is left when a worker ends."""

    async def scenario() -> None:
        async with provider(answer) as server:
            names = Settings(planner_model="openai:a,openai:b", step_model="qwen", model_base_url=server.url)
            models = models_from(names)
            assert models.planner is not None
            assert models.step is not None
            await models.planner.complete(asking())
            await models.step.complete(asking())
            await models.aclose()

    asyncio.run(scenario())
