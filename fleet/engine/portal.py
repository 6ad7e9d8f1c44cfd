"""The one event loop of a worker process: async tools and model calls run on it, threads wait for them."""

import asyncio
import logging
import queue
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
log = logging.getLogger("fleet.portal")
PATIENCE = 5.0
"""Seconds that closing waits for what runs on the loop."""


class Portal:
    """Starts its loop thread at first use. Clients that are built on the loop live as long as it does."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.closed = False

    @property
    def started(self) -> bool:
        return self._loop is not None

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="fleet-loop", daemon=True)
                self._thread.start()
            return self._loop

    def start(self, work: Coroutine[object, object, T]) -> "Future[T]":
        """Run on the loop; cancelling the future cancels the work."""
        return asyncio.run_coroutine_threadsafe(work, self.loop())

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run on the loop, and wait for the result."""
        return self.start(work).result()

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items, one by one as they come, in the calling thread. Closing the iterator cancels the source."""
        found: queue.SimpleQueue[tuple[bool, T | BaseException | None]] = queue.SimpleQueue()

        async def pump() -> None:
            try:
                async for item in items:
                    found.put((True, item))
                found.put((False, None))
            except BaseException as broken:
                found.put((False, broken))
                raise

        work = self.start(pump())
        try:
            while True:
                more, item = found.get()
                if not more:
                    if isinstance(item, BaseException):
                        raise item
                    return
                yield item  # type: ignore[misc]
        finally:
            work.cancel()

    def close(self) -> None:
        with self._lock:
            self.closed = True
            loop, self._loop = self._loop, None
            thread, self._thread = self._thread, None
        if loop is None or thread is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(_drain(), loop).result(PATIENCE)
        except TimeoutError:
            log.warning("something on the event loop does not end")
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _drain() -> None:
    """Cancel what is left and let clients close their connections."""
    tasks = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
