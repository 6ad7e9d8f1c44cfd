"""One model of one provider, spoken to through pydantic-ai."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import pydantic_ai.messages as ai
from pydantic import SecretStr
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.models import Model as Client
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings

from fleet.core.budget import Usage
from fleet.core.outcome import Failure, FailureClass
from fleet.errors import ModelUnavailable
from fleet.llm import kept
from fleet.llm.connect import connect
from fleet.llm.failing import failure_of
from fleet.llm.limits import Limits
from fleet.llm.port import Message, ModelFailed, ModelRequest, Recalled, Reply, Unconfigured

log = logging.getLogger("fleet.llm")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Call:
    """A request in pydantic-ai's terms. seconds: how long it may take."""

    client: Client[Any]
    messages: list[ai.ModelMessage]
    settings: ModelSettings
    parameters: ModelRequestParameters
    seconds: float


class ProviderModel:
    """What stands behind fleet.llm.providers.PydanticAIModel once it is called."""

    def __init__(self, name: str, *, base_url: str, key: SecretStr | None, limits: Limits) -> None:
        self.name = name
        self._limits = limits
        self._base_url = base_url
        self._key = key
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client[Any]] = WeakKeyDictionary()
        self._unpriced = False

    async def aclose(self) -> None:
        """Close the connections of the running loop. Call it on that loop before it ends."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.__aenter__()
            await client.__aexit__(None, None, None)

    async def complete(self, request: ModelRequest) -> Reply:
        call = self._call(request)
        try:
            async with asyncio.timeout(call.seconds):
                response = await model_request(
                    call.client, call.messages, model_settings=call.settings, model_request_parameters=call.parameters
                )
        except Exception as error:
            raise self._failed(error, call) from None
        return self._reply(response, "".join(p.content for p in response.parts if isinstance(p, ai.TextPart)))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[str | Reply, None]:
        call = self._call(request)
        deadline = asyncio.get_running_loop().time() + call.seconds
        said: list[str] = []
        # The error is mapped outside of the `async with`, so that closing the connection can fail as well.
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout_at(deadline):
                    streamed = await stack.enter_async_context(
                        model_request_stream(
                            call.client,
                            call.messages,
                            model_settings=call.settings,
                            model_request_parameters=call.parameters,
                        )
                    )
                events, until = aiter(streamed), deadline
                while (delta := await self._next(events, until, deadline)) is not None:
                    until = min(deadline, asyncio.get_running_loop().time() + self._limits.silence)
                    said.append(delta)
                    yield delta
                response = streamed.get()
        except Exception as error:
            raise self._failed(error, call) from None
        yield self._reply(response, "".join(said))

    async def recall(self, key: str) -> Recalled:
        """What the provider keeps of the call with this key. That it keeps nothing does not say that nothing was made:
        it may be at it still, or keep only what was read to its end."""
        if not self._limits.store:
            return Recalled()
        response = await kept.find(self._client(), key, self._limits.timeout)
        if response is None:
            return Recalled()
        return Recalled(reply=self._reply(response, response.text or ""))

    async def _next(
        self, events: AsyncIterator[ai.ModelResponseStreamEvent], until: float, deadline: float
    ) -> str | None:
        """The next text, or None at the end. A scope must not stay open across a yield, so each wait has its own."""
        while True:
            async with asyncio.timeout_at(until):
                event = await anext(events, None)
            if event is None:
                return None
            if delta := _text(event):
                return delta
            until = min(deadline, asyncio.get_running_loop().time() + self._limits.silence)

    def connect(self) -> Client[Any]:
        """A new client; opens no connection. Raises Unconfigured."""
        try:
            return connect(self.name, self._base_url, self._key)
        except ModelUnavailable as missing:
            raise Unconfigured(str(missing)) from None

    def _client(self) -> Client[Any]:
        """The client of the running loop: connections belong to the loop that opened them, and never cross a fork."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = self.connect()
        return self._clients[loop]

    def _call(self, request: ModelRequest) -> _Call:
        client = self._client()
        seconds = min(request.timeout or self._limits.timeout, self._limits.timeout)
        return _Call(
            client=client,
            messages=_messages(request.messages),
            settings=self._settings(client, request, seconds),
            parameters=_parameters(request),
            seconds=seconds,
        )

    def _settings(self, client: Client[Any], request: ModelRequest, seconds: float) -> ModelSettings:
        settings = ModelSettings(
            max_tokens=min(request.max_tokens, self._limits.max_tokens), timeout=seconds, max_retries=0
        )
        if request.key:
            settings["extra_headers"] = {"Idempotency-Key": request.key}
        if self._limits.store and (body := kept.keeping(client, request.key)):
            settings["extra_body"] = body
        if not client.profile.get("openai_supports_reasoning", False):
            settings["temperature"] = request.temperature
        for unsupported in client.unsupported_settings:
            settings.pop(unsupported, None)
        return settings

    def _failed(self, error: Exception, call: _Call) -> ModelFailed:
        if isinstance(error, TimeoutError) and not str(error):
            error = TimeoutError(f"no answer within {call.seconds:g} s, or silence for {self._limits.silence:g} s")
        held = getattr(getattr(call.client.provider, "client", None), "api_key", None)
        key = self._key.get_secret_value() if self._key is not None else None
        return ModelFailed(failure_of(error, self.name, tuple(s for s in (held, key) if isinstance(s, str) and s)))

    def _reply(self, response: ai.ModelResponse, text: str) -> Reply:
        usage = self._usage(response)
        finish = response.finish_reason or "stop"
        if finish == "content_filter":
            cut = Failure(type="content_filter", message=f"{self.name}: the provider withheld the answer")
            raise ModelFailed(cut, usage)
        if finish == "error":
            broken = Failure(cls=FailureClass.TRANSIENT, type="broken_reply", message=f"{self.name}: generation failed")
            raise ModelFailed(broken, usage)
        return Reply(text=text, usage=usage, model=response.model_name or self.name, finish=finish)

    def _usage(self, response: ai.ModelResponse) -> Usage:
        used = response.usage
        tokens_in, tokens_out = used.input_tokens, used.output_tokens
        return Usage(calls=1, input_tokens=tokens_in, output_tokens=tokens_out, money=self._price(response))

    def _price(self, response: ai.ModelResponse) -> float:
        """Dollars by the bundled price list; 0.0, said once, where it does not know the model or no usage was given."""
        try:
            return float(response.cost().total_price)
        except (LookupError, ValueError, AssertionError):
            if not self._unpriced:
                self._unpriced = True
                log.warning("no price is known for %s: its calls count as 0 dollars", self.name)
            return 0.0


def _messages(messages: tuple[Message, ...]) -> list[ai.ModelMessage]:
    out: list[ai.ModelMessage] = []
    for message in messages:
        if message.role == "assistant":
            out.append(ai.ModelResponse(parts=[ai.TextPart(message.text)]))
            continue
        part = ai.SystemPromptPart(message.text) if message.role == "system" else ai.UserPromptPart(message.text)
        last = out[-1] if out else None
        if isinstance(last, ai.ModelRequest):
            out[-1] = ai.ModelRequest(parts=[*last.parts, part])
        else:
            out.append(ai.ModelRequest(parts=[part]))
    return out


def _parameters(request: ModelRequest) -> ModelRequestParameters:
    if request.reply_schema is None:
        return ModelRequestParameters()
    schema = OutputObjectDefinition(json_schema=dict(request.reply_schema), name="reply")
    return ModelRequestParameters(output_mode="native", output_object=schema)


def _text(event: ai.ModelResponseStreamEvent) -> str:
    if isinstance(event, ai.PartStartEvent) and isinstance(event.part, ai.TextPart):
        return event.part.content
    if isinstance(event, ai.PartDeltaEvent) and isinstance(event.delta, ai.TextPartDelta):
        return event.delta.content_delta
    return ""
