"""A TCP proxy for tests: a link to a server that can be cut, held up, slowed, left half-open, and led elsewhere."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any

CHUNK = 65_536
Address = tuple[str, int] | Path
"""Host and port, or the path of a socket."""


class Link(Enum):
    """What becomes of bytes. held: they wait. lost: they vanish, both ends take the connection for open."""

    PASSING = "passing"
    HELD = "held"
    LOST = "lost"
    CUT = "cut"


class Proxy:
    """A context manager: a port of 127.0.0.1 that stands for a server. Usable from any thread.

    port: what clients are given; it stays the same. accepted: connections so far. delay: seconds that each piece of
    data takes, each way.
    """

    def __init__(self, target: Address) -> None:
        self.accepted = 0
        self.delay = 0.0
        self._target = target
        self._link = Link.PASSING
        self._pairs: set[_Pair] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=500)
        self.port = int(self._listening.getsockname()[1])

    def __enter__(self) -> "Proxy":
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._accept, sock=self._listening))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def open(self) -> int:
        """Connections that are open now."""
        return len(self._pairs)

    def point(self, target: Address) -> None:
        """Lead to another server from now on; connections to the one before are reset."""
        self._target = target
        self._do(self._change(Link.PASSING, lambda pair: pair.reset()))

    def cut(self) -> None:
        """Reset every connection, and every new one."""
        self._do(self._change(Link.CUT, lambda pair: pair.reset()))

    def reset(self) -> None:
        """Reset every connection; new ones pass as before."""
        self._do(self._change(self._link, lambda pair: pair.reset()))

    def hold(self) -> None:
        """Let nothing through for now, and lose nothing."""
        self._do(self._change(Link.HELD, lambda pair: None))

    def lose(self) -> None:
        """Half-open: the server's ends are closed, the clients' stay open, and what they send vanishes."""
        self._do(self._change(Link.LOST, lambda pair: pair.lose()))

    def mend(self) -> None:
        """Pass again. A client that writes on a connection that was lost finds it reset."""
        self._do(self._change(Link.PASSING, lambda pair: None))

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _change(self, link: Link, each: Callable[["_Pair"], None]) -> None:
        self._link = link
        for pair in list(self._pairs):
            each(pair)
            pair.changed.set()

    async def _end(self) -> None:
        self._server.close()
        await self._change(Link.CUT, lambda pair: pair.reset())
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks, timeout=5)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        pair = _Pair(reader, writer)
        self._pairs.add(pair)
        try:
            if self._link is Link.CUT or not await self._joined(pair):
                pair.reset()
                return
            back = asyncio.create_task(self._pump(pair, up=False))
            await self._pump(pair, up=True)
            await back
        finally:
            self._pairs.discard(pair)
            pair.close()

    async def _joined(self, pair: "_Pair") -> bool:
        """Whether there is a server behind it; one that is lost from the start has none."""
        if self._link is Link.LOST:
            pair.lost = True
            return True
        try:
            if isinstance(self._target, Path):
                pair.server = await asyncio.open_unix_connection(str(self._target))
            else:
                pair.server = await asyncio.open_connection(*self._target)
        except OSError:
            return False
        return True

    async def _pump(self, pair: "_Pair", *, up: bool) -> None:
        try:
            while data := await pair.read(up=up):
                if self.delay:
                    await asyncio.sleep(self.delay)
                await self._passing(pair)
                if pair.lost:
                    if self._link is not Link.LOST:
                        pair.reset()
                    continue
                await pair.write(data, up=up)
        except OSError:
            pass
        if not pair.lost or up:
            pair.close()

    async def _passing(self, pair: "_Pair") -> None:
        while self._link is Link.HELD:
            pair.changed.clear()
            await pair.changed.wait()


class _Pair:
    """A client's connection and the server's behind it. lost: there is no server's any more, and nobody was told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.client = (reader, writer)
        self.server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.lost = False
        self.changed = asyncio.Event()

    async def read(self, *, up: bool) -> bytes:
        side = self.client if up else self.server
        return await side[0].read(CHUNK) if side is not None else b""

    async def write(self, data: bytes, *, up: bool) -> None:
        side = self.server if up else self.client
        if side is not None:
            side[1].write(data)
            await side[1].drain()

    def lose(self) -> None:
        self.lost = True
        if self.server is not None:
            self.server[1].transport.abort()

    def reset(self) -> None:
        raw = self.client[1].get_extra_info("socket")
        if raw is not None and raw.fileno() >= 0:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for side in (self.client, self.server):
            if side is not None:
                side[1].transport.abort()

    def close(self) -> None:
        for side in (self.client, self.server):
            if side is not None:
                side[1].close()
