"""Runs async tools and model calls in the thread that waits for them, so that nothing else decides their order."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from fleet.engine.portal import Begun, Portal
from fleet.testing.faults import Crashed

T = TypeVar("T")
_loops = threading.local()


class Inline(ThreadPoolExecutor):
    """An executor that does at once what it is given."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **options: Any) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **options))
        except BaseException as error:
            future.set_exception(error)
        return future


END = Inline()
"""Stands behind the last item."""


class InlinePortal(Portal):
    """A loop a thread. What runs on it is not ended before its time: a late end is refused by its fence."""

    def loop(self) -> asyncio.AbstractEventLoop:
        found: asyncio.AbstractEventLoop | None = getattr(_loops, "loop", None)
        if found is None:
            found = _loops.loop = asyncio.new_event_loop()
            found.set_default_executor(END)
        return found

    def run(self, work: Coroutine[object, object, T], begun: Begun | None = None, timeout: float | None = None) -> T:  # noqa: ARG002
        return self.loop().run_until_complete(work)

    def iterate(self, items: AsyncIterator[T], begun: Begun | None = None) -> Iterator[T]:  # noqa: ARG002
        async def following() -> T | Inline:
            try:
                return await anext(items)
            except StopAsyncIteration:  # a default for anext crashes CPython 3.11 where the source raises
                return END

        try:
            while not isinstance(item := self.loop().run_until_complete(following()), Inline):
                yield item
        finally:
            with suppress(Crashed):  # who goes on meets it again at the next call of a store
                self.loop().run_until_complete(items.aclose())  # type: ignore[attr-defined]

    def close(self) -> None:
        self.closed = True


def close_loop() -> None:
    """End what a crash has left on the loop of this thread, if it has one; how it takes that is nobody's business."""
    loop: asyncio.AbstractEventLoop | None = getattr(_loops, "loop", None)
    if loop is None:
        return
    _loops.loop = None
    loop.set_exception_handler(lambda *_: None)
    loop.run_until_complete(loop.shutdown_asyncgens())
    while tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks))
        for task in tasks:
            if not task.cancelled():
                task.exception()
    loop.close()
