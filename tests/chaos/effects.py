"""Tools whose every effect is a line in a file that outlives their worker: what really happened, apart from any record.

A line is a word and the key of the call. `asked` and `gave` are those of a provider that bills: it keeps what it gave
by key, so that a call that is made again has no second effect.
"""

import asyncio
import os
import signal
import time
from pathlib import Path

from fleet.tools.context import ToolContext
from fleet.tools.decorator import tool

CHUNK = 8_000_000
"""Bytes that gorge takes at a time."""


def tell(log: str, word: str, key: str) -> None:
    """Append one line in one write, so that lines of many processes do not mix."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{word} {key}\n".encode())
    finally:
        os.close(file)


@tool(effect="reads", breaker=None, timeout=120)
def work(log: str, ms: int, upon: list[int], ctx: ToolContext) -> int:
    """Take a while in a thread; one more than the sum of what it builds upon."""
    tell(log, "work", ctx.idempotency_key)
    time.sleep(ms / 1000)
    return 1 + sum(upon)


@tool(effect="reads", breaker=None, timeout=120)
async def rest(log: str, ms: int, upon: list[int], ctx: ToolContext) -> int:
    """As work, on the event loop."""
    tell(log, "work", ctx.idempotency_key)
    await asyncio.sleep(ms / 1000)
    return 1 + sum(upon)


@tool(effect="reads", breaker=None, cost=0.001, timeout=120)
def bill(log: str, ms: int, upon: list[int], ctx: ToolContext) -> int:
    """As work, and billed."""
    tell(log, "asked", ctx.idempotency_key)
    time.sleep(ms / 1000)
    tell(log, "gave", ctx.idempotency_key)
    return 1 + sum(upon)


@tool(effect="writes", breaker=None, timeout=120)
def post(log: str, ms: int, upon: list[int], ctx: ToolContext) -> int:
    """As work, and it changes the world."""
    tell(log, "posted", ctx.idempotency_key)
    time.sleep(ms / 1000)
    return 1 + sum(upon)


@tool(effect="reads", breaker=None, timeout=120)
def gorge(log: str, ms: int, upon: list[int], ctx: ToolContext) -> int:
    """As work; the first time it takes memory until its process is ended for it.

    Where a file `limit` says how much that may be, nobody else sees to it, and it ends its process as the kernel would.
    """
    tell(log, "work", ctx.idempotency_key)
    limit, once = Path(log).with_name("limit"), Path(log).with_name(f"gorged {ctx.idempotency_key.replace('/', '_')}")
    if not once.exists():
        once.touch()
        taken: list[bytearray] = []
        while not limit.exists() or len(taken) * CHUNK < int(limit.read_text()):
            taken.append(bytearray(b"x" * CHUNK))
        os.kill(os.getpid(), signal.SIGKILL)
    return 1 + sum(upon)
