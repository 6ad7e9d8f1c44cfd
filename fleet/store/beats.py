"""What a heartbeat asks of Redis, and no more, so that a process that only beats starts quickly and stays small."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fleet.store.scripts import Scripts

Record = tuple[str, str, str, str]
"""Run, step, fence and lane of an attempt."""


class Beating(NamedTuple):
    """Who beats: the worker, the lanes it serves (comma separated), and its lease in seconds."""

    worker: str
    lanes: str
    lease: float


class Beats:
    """Every method is one script, and raises StoreUnreachable."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    @classmethod
    def connect(cls, url: str, namespace: str, timeout: float) -> "Beats":
        """Connects at the first call. timeout: seconds for an answer; a beat that comes later is none."""
        client = redis.Redis.from_url(
            url,
            decode_responses=True,
            max_connections=2,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
        )
        return cls(Scripts(client, namespace))

    def renew(self, who: Beating, slots: int | None, held: Sequence[Record]) -> list[tuple[int, str]]:
        """slots: how many the worker has (None: only renew). held: 500 at most. Gives (index in held, why refused)."""
        lease = round(who.lease * 1000)
        offered = "-" if slots is None else slots
        reply = self._scripts.call("renew", who.worker, who.lanes, offered, lease, lease, json.dumps(held))
        return [(int(reply[i]), str(reply[i + 1])) for i in range(0, len(reply), 2)]

    def strays(self, who: Beating, within: float) -> list[Record]:
        """Attempts that the worker holds and whose lease runs out within so many seconds."""
        reply = self._scripts.call("strays", who.worker, who.lanes, round(within * 1000))
        return [(reply[i], reply[i + 1], reply[i + 2], reply[i + 3]) for i in range(0, len(reply), 4)]
