"""Loads the Lua files, and calls them by their hash."""

import hashlib
import re
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import redis
from redis.exceptions import (
    ClusterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from fleet.errors import StoreUnreachable

LUA = Path(__file__).parent / "lua"
PASSING = (OutOfMemoryError, ReadOnlyError, ClusterDownError)
"""What the client names by a class of its own, without the server's code in its text."""
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


@cache
def source(name: str) -> str:
    """The text of lua/<name>.lua with the libraries that its header names, each once, in front of it."""
    text = (LUA / f"{name}.lua").read_text()
    needs = re.search(r"^-- needs: (.*)$", text, re.MULTILINE)
    libraries = needs.group(1).split() if needs else []
    return "\n".join([*((LUA / "lib" / f"{library}.lua").read_text() for library in libraries), text])


@cache
def sha(name: str) -> str:
    return hashlib.sha1(source(name).encode(), usedforsecurity=False).hexdigest()


def guarded(call: Callable[[], Any]) -> Any:
    """The answer of a Redis call. Raises EpochLost or StoreUnreachable where there is none."""
    try:
        return call()
    except ResponseError as refused:
        if str(refused).startswith("NOEPOCH"):
            raise EpochLost(f"Redis holds no live state: {refused}; a scheduler will rebuild it") from None
        if isinstance(refused, PASSING) or str(refused).startswith(REFUSALS):
            raise StoreUnreachable(f"Redis refuses: {refused}") from None
        raise
    except RedisError as broken:
        raise StoreUnreachable(f"Redis does not answer: {broken}") from None


class Scripts:
    """Calls scripts in one namespace, each thread over a connection of its own."""

    def __init__(self, client: "redis.Redis", namespace: str) -> None:
        self._connections = ThreadConnections(client)
        self._namespace = namespace

    def call(self, name: str, *args: str | int | float) -> Any:
        return guarded(lambda: self._evaluate(name, args))

    def _evaluate(self, name: str, args: tuple[str | int | float, ...]) -> Any:
        try:
            return self._connections.execute("EVALSHA", sha(name), 0, self._namespace, *args)
        except NoScriptError:
            return self._connections.execute("EVAL", source(name), 0, self._namespace, *args)


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
            connection.send_command(*command, check_health=False)
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
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._pool.get_connection()
        elif time.monotonic() - self._local.used > RESTED and _closed(connection):
            connection.disconnect()
        return connection


def _closed(connection: Any) -> bool:
    """Whether the other end has hung up, or said something nobody asked for."""
    try:
        return bool(connection.can_read(timeout=0))
    except RedisError:
        return True
