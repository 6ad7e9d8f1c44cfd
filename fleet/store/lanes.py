"""Which lanes live workers serve, and in which steps wait that nobody serves: plain reads, no script."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import redis

from fleet.store import clock
from fleet.store.keys import Keys
from fleet.store.scripts import guarded

SCANNED = 1000
"""Keys that one command looks at."""
COMMANDS = 10
"""Commands of one look."""


class WorkerSeen(NamedTuple):
    """A worker whose last heartbeat still counts."""

    name: str
    lanes: str
    slots: int


class Look(NamedTuple):
    """A part of a walk over the ready sets. cursor: where the next part begins, 0 for a new walk."""

    cursor: int
    ready: Mapping[str, int]


class Lanes:
    """Lanes as they stand: a worker that was killed counts until its heartbeat lapses."""

    def __init__(self, client: "redis.Redis", keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def workers(self) -> list[WorkerSeen]:
        """Workers whose heartbeat counts."""
        now = clock.now(self._client, self._keys)
        names = guarded(lambda: self._client.zrangebyscore(self._keys.workers, now, "+inf"))
        entries = guarded(lambda: self._client.hgetall(self._keys.slots))
        return [WorkerSeen(name, *_slots(entries[name])) for name in names if name in entries]

    def unserved(self, lanes: Iterable[str]) -> list[str]:
        """Those of the lanes that no live worker serves, in order and without repeats."""
        wanted = list(dict.fromkeys(lanes))
        served = {lane for worker in self.workers() for lane in worker.lanes.split(",")} if wanted else set()
        return [lane for lane in wanted if lane not in served]

    def look(self, cursor: int = 0) -> Look:
        """Walk on over the ready sets, and give the number of ready steps of the lanes that were met.

        A lane that no worker ever served stands in no set of lanes: only its ready set tells of it.
        """
        start = self._keys.ready("")
        names: set[str] = set()
        for _ in range(COMMANDS):
            cursor, found = guarded(lambda at=cursor: self._client.scan(at, f"{start}*", SCANNED))  # type: ignore[misc]
            names.update(found)
            if cursor == 0:
                break
        pipe = self._client.pipeline(transaction=False)
        for name in sorted(names):
            pipe.zcard(name)
        numbers: list[int] = guarded(pipe.execute) if names else []
        ready = {name.removeprefix(start): n for name, n in zip(sorted(names), numbers, strict=True) if n}
        return Look(cursor, ready)


def _slots(entry: str) -> tuple[str, int]:
    lanes, number = entry.split(" ")
    return lanes, int(number)
