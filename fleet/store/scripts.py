"""Loads the Lua files, and calls them by their hash."""

import hashlib
import re
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
    """Calls scripts in one namespace."""

    def __init__(self, client: "redis.Redis", namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    def call(self, name: str, *args: str | int | float) -> Any:
        return guarded(lambda: self._evaluate(name, args))

    def _evaluate(self, name: str, args: tuple[str | int | float, ...]) -> Any:
        try:
            return self._client.evalsha(sha(name), 0, self._namespace, *args)
        except NoScriptError:
            return self._client.eval(source(name), 0, self._namespace, *args)
