"""The one event loop of a worker process: async tools and model calls run on it, threads wait for them."""

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class Portal:
    """Starts its loop thread at first use. Clients that are built on the loop live as long as it does."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    @property
    def started(self) -> bool:
        return self._loop is not None

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="fleet-loop", daemon=True).start()
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
            loop, self._loop = self._loop, None
        if loop is None:
            return
        asyncio.run_coroutine_threadsafe(_drain(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)


async def _drain() -> None:
    """Cancel what is left and let clients close their connections."""
    tasks = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
