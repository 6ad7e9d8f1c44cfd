"""Loads the Lua files as a library of Redis functions, and calls them."""

import hashlib
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import hiredis
import redis
from redis.exceptions import (
    AuthenticationError,
    ClusterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from fleet.errors import UNTIL_SEEN_TO, StoreUnreachable

LUA = Path(__file__).parent / "lua"
PASSING = (OutOfMemoryError, ReadOnlyError, ClusterDownError, NoPermissionError)
"""What the client names by a class of its own, without the server's code in its text."""
STAYING = (OutOfMemoryError, NoPermissionError, AuthenticationError)
"""What stays until somebody sees to it. So does MISCONF: the disk is full."""
RESTED = 1.0
"""Seconds after which a connection is looked at before it is used again."""
REFUSALS = (
    "OOM",
    "READONLY",
    "MISCONF",
    "LOADING",
    "MASTERDOWN",
    "NOAUTH",
    "WRONGPASS",
    "NOREPLICAS",
    "BUSY ",
    "NOPERM",
)


class EpochLost(StoreUnreachable):
    """The live state is empty or foreign: a scheduler has to open a new epoch before work goes on."""

    retry_after = 2.0


LIBRARIES = ("base", "ready", "settle", "claim", "end")
"""The files of lua/lib, each after those it needs."""


@cache
def library() -> tuple[str, str]:
    """All scripts as one library of Redis functions: a digest that is part of every name in it, and its text.

    So Redis compiles them once, and not at each call; and releases that run side by side each call their own.
    """
    parts = [(LUA / "lib" / f"{name}.lua").read_text() for name in LIBRARIES]
    files = sorted(LUA.glob("*.lua"))
    parts += [f"local function script_{file.stem}(ARGV)\n{file.read_text()}\nend" for file in files]
    digest = hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()[:12]
    parts += [REGISTER.format(name=file.stem, digest=digest) for file in files]
    return digest, "\n".join([f"#!lua name=fleet_{digest}", *parts])


REGISTER = """redis.register_function('{name}_{digest}', function(keys, args)
  local wrong = begin(args[1])
  if wrong then return wrong end
  return script_{name}(args)
end)"""


def guarded(call: Callable[[], Any]) -> Any:
    """The answer of a Redis call. Raises EpochLost or StoreUnreachable where there is none."""
    try:
        return call()
    except ResponseError as refused:
        if str(refused).startswith("NOEPOCH"):
            raise EpochLost(f"Redis holds no live state: {refused}; a scheduler will rebuild it") from None
        if isinstance(refused, PASSING) or str(refused).startswith(REFUSALS):
            raise StoreUnreachable(f"Redis refuses: {refused}", retry_after=_wait(refused)) from None
        raise
    except RedisError as broken:
        raise StoreUnreachable(f"Redis does not answer: {broken}", retry_after=_wait(broken)) from None


def _wait(fault: RedisError) -> float | None:
    stays = isinstance(fault, STAYING) or str(fault).startswith("MISCONF")
    return UNTIL_SEEN_TO if stays else None


class Scripts:
    """Calls scripts in one namespace, each thread over a connection of its own."""

    def __init__(self, client: "redis.Redis", namespace: str) -> None:
        self._connections = ThreadConnections(client)
        self._namespace = namespace

    def call(self, name: str, *args: str | int | float) -> Any:
        return guarded(lambda: self._evaluate(name, args))

    def _evaluate(self, name: str, args: tuple[str | int | float, ...]) -> Any:
        digest, text = library()
        command = ("FCALL", f"{name}_{digest}", 0, self._namespace, *args)
        try:
            return self._connections.execute(*command)
        except ResponseError as refused:
            if "Function not found" not in str(refused):
                raise
        self._connections.execute("FUNCTION", "LOAD", "REPLACE", text)
        return self._connections.execute(*command)


class ThreadConnections:
    """Takes a connection out of the client's pool for each thread, and keeps it: half of a call's cost is the pool's.

    A connection that has rested is looked at before it is used, so that a server that was started again costs no
    failed call. A call is never repeated: the caller knows what may be.
    """

    def __init__(self, client: "redis.Redis") -> None:
        self._pool = client.connection_pool
        self._local = threading.local()

    def execute(self, *command: str | int | float) -> Any:
        connection = self._connection()
        try:
            packed = hiredis.pack_command(command)  # type: ignore[arg-type]
            connection.send_packed_command([packed], check_health=False)
            answer = connection.read_response()
        except ResponseError:
            self._local.used = time.monotonic()
            raise
        except BaseException:
            connection.disconnect()
            raise
        self._local.used = time.monotonic()
        return answer

    def _connection(self) -> Any:
        kept = getattr(self._local, "kept", None)
        if kept is None:
            kept, self._local.used = Kept(self._pool), time.monotonic()
            self._local.kept = kept
        connection = kept.connection
        if time.monotonic() - self._local.used > RESTED and _closed(connection):
            connection.disconnect()
        return connection


class Kept:
    """A thread's connection; it goes back to the pool when the thread has ended."""

    def __init__(self, pool: "redis.ConnectionPool") -> None:
        self._pool = pool
        self.connection: Any = pool.get_connection()

    def __del__(self) -> None:
        connection = getattr(self, "connection", None)
        if connection is not None:
            self._pool.release(connection)


def _closed(connection: Any) -> bool:
    """Whether the other end has hung up, or said something nobody asked for."""
    try:
        return bool(connection.can_read(timeout=0))
    except RedisError:
        return True
