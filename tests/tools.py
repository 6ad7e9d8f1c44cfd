"""Tools for tests: each leaves a trace in a file, so that a test can count what really happened."""

import asyncio
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fleet.core.outcome import FailureClass
from fleet.tools.context import ToolContext
from fleet.tools.decorator import tool
from fleet.tools.tool import ToolFailed


def _trace(path: str, word: str) -> int:
    """Append a word in one write, and give how many are there now."""
    with Path(path).open("a") as file:
        file.write(f"{word}\n")
    return len(Path(path).read_text().splitlines())


@tool(effect="reads", breaker=None)
def touch(path: str, word: str = "x") -> int:
    """Leave a word in a file."""
    return _trace(path, word)


@tool(effect="reads", breaker=None)
def slow_touch(path: str, seconds: float, word: str = "x") -> int:
    """Leave a word in a file, then take a while."""
    number = _trace(path, word)
    time.sleep(seconds)
    return number


@tool(effect="writes", breaker=None)
def write_once(path: str, ctx: ToolContext, die: bool = False) -> str:
    """Change the world; die right after it when told to and when it is the first time."""
    number = _trace(path, ctx.idempotency_key)
    if die and number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return ctx.idempotency_key


@tool(effect="reads", breaker=None)
def killer(path: str, mended: str = "") -> int:
    """Take the worker down, unless somebody has mended that."""
    number = _trace(path, "killed")
    if not (mended and Path(mended).exists()):
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@tool(effect="reads", breaker=None)
def flaky(path: str, failures: int) -> int:
    """Fail as if the network were down, so many times."""
    number = _trace(path, "try")
    if number <= failures:
        raise ToolFailed("unavailable", "try later", FailureClass.TRANSIENT)
    return number


@tool(effect="pure")
def broken(message: str = "it broke") -> None:
    """Always say no."""
    raise ToolFailed("broken", message)


@tool(effect="pure")
def big(size: int) -> str:
    """A value of so many characters."""
    return "b" * size


@tool(effect="pure")
def length(text: str) -> int:
    """How many characters."""
    return len(text)


@tool(effect="pure", name="fetch_price")
def fetch_price() -> str:
    """Text with dollar amounts in it, which are no references."""
    return "It costs $5 million, or $1.5 a piece; ${1} and $2 are not references."


@tool(effect="pure", lane="gpu")
def on_gpu() -> str:
    """Only for workers that serve another lane than the main one."""
    return "done"


def _gap(ended: threading.Event) -> Callable[[], float]:
    """A thread that does nothing but look at the clock: the longest time, in seconds, in which it could not."""
    gaps = [0.0]

    def look() -> None:
        seen = time.monotonic()
        while not ended.wait(0.01):
            now = time.monotonic()
            gaps.append(now - seen)
            seen = now

    thread = threading.Thread(target=look, daemon=True)
    thread.start()

    def longest() -> float:
        ended.wait(0.05)
        ended.set()
        thread.join()
        return max(gaps)

    return longest


def _backtrack(seconds: float) -> None:
    """One regular expression that takes about so long, all in one call that lets no other thread run."""
    size, took = 200, 0.0
    while took < 0.2:
        size *= 2
        started = time.thread_time()  # time in which others had the processor is no part of what it takes
        re.match("a*a*a*b", "a" * size)
        took = time.thread_time() - started
    re.match("a*a*a*b", "a" * round(size * (seconds / took) ** (1 / 3)))


@tool(effect="reads", breaker=None)
def hold_lock(seconds: float, after: str = "") -> float:
    """Hold the interpreter lock, once a file is there: how long no other thread of the worker could run."""
    while after and not Path(after).exists():
        time.sleep(0.01)
    longest = _gap(threading.Event())
    _backtrack(seconds)
    return longest()


@tool(effect="reads", breaker=None, timeout=1)
def lock_up(path: str) -> int:
    """Hold the interpreter lock for minutes, the first time."""
    number = _trace(path, "locked")
    if number == 1:
        _backtrack(300)
    return number


@tool(effect="reads", breaker=None)
async def wait_there(path: str, seconds: float, word: str = "x") -> int:
    """Leave a word in a file, and take a while on the event loop."""
    number = _trace(path, word)
    await asyncio.sleep(seconds)
    return number


@tool(effect="reads", breaker=None)
async def hold_on(path: str, gate: str, word: str = "x") -> int:
    """Leave a word in a file, and wait on the event loop until another file is there."""
    number = _trace(path, word)
    while not os.path.exists(gate):  # noqa: ASYNC110, ASYNC240 - a file is all that it shares with the test
        await asyncio.sleep(0.05)
    return number


@tool(effect="reads", breaker=None)
def hold_on_deaf(path: str, gate: str, word: str = "x") -> int:
    """As hold_on, in a thread that heeds no stop."""
    number = _trace(path, word)
    while not Path(gate).exists():
        time.sleep(0.05)
    return number


@tool(effect="reads", breaker=None)
def slow_once(path: str, seconds: float) -> int:
    """Leave a word in a file, and take a while the first time."""
    number = _trace(path, "x")
    if number == 1:
        time.sleep(seconds)
    return number
