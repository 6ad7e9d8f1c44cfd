"""A provider of models as it looks from outside: a small OpenAI-compatible HTTP server on loopback."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

import pytest

from fleet.llm.port import Model, ModelFailed, ModelRequest, Reply

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


@dataclass
class Exchange:
    """One request as the server got it, and the means to answer it."""

    headers: dict[str, str]
    body: dict[str, Any]
    writer: asyncio.StreamWriter = field(repr=False)
    asked: str = ""
    """The method and what it was for, such as `GET /v1/chat/completions?limit=1`."""

    async def reply(self, status: int, body: object, **headers: str) -> None:
        content = json.dumps(body).encode()
        extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n{extra}\r\n"
        self.writer.write(head.encode() + content)
        await self.writer.drain()

    async def answer(self, text: str, finish: str = "stop") -> None:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        await self.reply(200, self._completion("chat.completion", [choice]) | {"usage": USAGE})

    async def begin(self) -> None:
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.writer.write(head.encode())
        await self.writer.drain()

    async def delta(self, text: str | None, finish: str | None = None) -> None:
        delta = {} if text is None else {"role": "assistant", "content": text}
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        await self._event(json.dumps(self._completion("chat.completion.chunk", [choice])))

    async def usage(self) -> None:
        await self._event(json.dumps(self._completion("chat.completion.chunk", []) | {"usage": USAGE}))

    async def end(self) -> None:
        await self._event("[DONE]")
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def finish_stream(self) -> None:
        await self.delta(None, "stop")
        await self.usage()
        await self.end()

    async def _event(self, data: str) -> None:
        line = f"data: {data}\n\n".encode()
        self.writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        await self.writer.drain()

    def _completion(self, kind: str, choices: list[object]) -> dict[str, Any]:
        return {"id": "c1", "object": kind, "created": 1, "model": self.body["model"], "choices": choices}


Responder = Callable[[Exchange], Awaitable[None]]


class Provider:
    """Answers each request by `respond`. When the block ends, every connection has been closed by the client."""

    def __init__(self, respond: Responder, listening: socket.socket | None = None) -> None:
        self.respond = respond
        self._listening = listening
        self.exchanges: list[Exchange] = []
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        where: dict[str, Any] = {"sock": self._listening} if self._listening else {"host": "127.0.0.1", "port": 0}
        self._server = await asyncio.start_server(self._serve, **where)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self.left()
        await self._server.wait_closed()

    async def left(self) -> None:
        """Wait until no client is connected."""
        await asyncio.gather(*self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.current_task())  # type: ignore[arg-type]
        try:
            while exchange := await self._read(reader, writer):
                self.exchanges.append(exchange)
                answering = asyncio.ensure_future(self.respond(exchange))
                # A client that goes away while it waits ends the answer, so that a hanging one does not hold the test.
                gone = (
                    asyncio.ensure_future(reader.read(1))
                    if exchange.body and "hang" in exchange.body["messages"][-1]["content"]
                    else None
                )
                await asyncio.wait([answering, *([gone] if gone else [])], return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():
                    answering.cancel()
                    break
                answering.result()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange | None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except asyncio.IncompleteReadError:
            return None
        headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        exact = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        asked = head.split("\r\n")[0].rpartition(" ")[0]
        return Exchange({name.lower(): value for name, value in exact.items()}, body, writer, asked)


@pytest.fixture
def provider() -> type[Provider]:
    return Provider


@pytest.fixture(autouse=True)
def no_keys_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key or address of a real provider reaches a test."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OLLAMA_BASE_URL", "OLLAMA_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


async def _read(model: Model, request: ModelRequest) -> tuple[list[str | Reply], ModelFailed | None]:
    items: list[str | Reply] = []
    try:
        async for item in model.stream(request):
            items.append(item)  # noqa: PERF401 - what came before a failure counts
    except ModelFailed as failed:
        return items, failed
    return items, None


@pytest.fixture
def read() -> Any:
    """read(model, request): what a stream gave, and the failure that ended it, or None."""
    return _read
