"""The one event loop of a worker process: async tools and model calls run on it, threads wait for them."""

import asyncio
import logging
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")
log = logging.getLogger("fleet.portal")
PATIENCE = 5.0
"""Seconds that closing waits for what runs on the loop."""
HEED = 0.5
"""Seconds that work which is told to stop has to end by itself; after them nobody waits for it."""


class Stop:
    """Ends work on the loop, from any thread: who waits for it goes on when it has ended, or after HEED seconds.

    Safe before the work has begun and after it has ended, and to be called twice.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[object] | None = None
        self._asked = False
        self.work: Future[object] | None = None

    def __call__(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, and all that ran on it has ended
            self._loop.call_soon_threadsafe(self._cancel)

    async def guard(self, work: Coroutine[object, object, T]) -> T:
        self._task = asyncio.current_task()
        if self._asked:
            work.close()
            raise asyncio.CancelledError
        return await work

    def _cancel(self) -> None:
        self._asked = True
        if self._task is not None:
            self._task.cancel()
        if self.work is not None and not self.work.done():
            self._loop.call_later(HEED, self.work.cancel)


Begun = Callable[[Stop], None]


def _alone(stop: Stop) -> None:
    """Nobody stops it."""


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

    def run(self, work: Coroutine[object, object, T], begun: Begun = _alone, timeout: float | None = None) -> T:
        """Run on the loop, and wait for the result. begun: is given what ends it before its time.

        Raises CancelledError (of concurrent.futures) where it was ended, TimeoutError after `timeout` seconds.
        """
        future, stop = self._begin(work)
        begun(stop)
        return future.result(timeout)

    def iterate(self, items: AsyncIterator[T], begun: Begun = _alone) -> Iterator[T]:
        """The items, one by one as they come, in the calling thread; as `run`. Closing the iterator ends the source."""
        found: queue.SimpleQueue[T | Future[None]] = queue.SimpleQueue()

        async def pump() -> None:
            async for item in items:
                found.put(item)

        future, stop = self._begin(pump())
        future.add_done_callback(found.put)
        begun(stop)
        try:
            while (item := found.get()) is not future:
                yield item  # type: ignore[misc]
            future.result()
        finally:
            if not future.done():
                stop()
                wait([future], 2 * HEED)

    def _begin(self, work: Coroutine[object, object, T]) -> tuple["Future[T]", Stop]:
        stop = Stop(self.loop())
        future = self.start(stop.guard(work))
        stop.work = future  # type: ignore[assignment]
        return future, stop

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
