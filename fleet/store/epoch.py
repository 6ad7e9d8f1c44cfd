"""The epoch of the live state: opened by one process at a time, closed when Redis is older than the record says."""

import uuid

import redis

from fleet.store.keys import Keys
from fleet.store.scripts import guarded

OPENING = 60.0
"""Seconds after which a process that died while it opened an epoch is no more waited for."""
PAGE = 500
STALE = (
    *("ready:*", "leases:*", "told:*", "open:*", "timers", "cascades"),
    *("cancelling", "paused", "shifting", "deadlines"),
)
"""What speaks of runs that are rebuilt. Workers, breakers, ended runs and Celery's own keys stay."""
PARTS = ("", "outcomes", "cascade", "events")
ENDED = ("succeeded", "failed", "cancelled")


class EpochKey:
    """Where no epoch is open, every script refuses."""

    def __init__(self, client: "redis.Redis", keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._me = uuid.uuid4().hex

    def current(self) -> int | None:
        """The epoch that is open, or None."""
        found = guarded(lambda: self._client.get(self._keys.epoch))
        return int(found) if found else None

    def simulated(self) -> bool:
        """Whether a simulation has set the clock of this namespace ahead."""
        return bool(guarded(lambda: self._client.exists(self._keys.clock_offset)))

    def open(self, epoch: int) -> None:
        """Open an epoch where none is. One that is open is never replaced: event ids would go back."""
        guarded(lambda: self._client.set(self._keys.epoch, epoch, nx=True))

    def close(self) -> None:
        guarded(lambda: self._client.delete(self._keys.epoch))

    def take(self) -> bool:
        """Whether this process is the one that opens an epoch now."""
        return bool(guarded(lambda: self._client.set(self._keys.opening, self._me, nx=True, px=round(OPENING * 1000))))

    def leave(self) -> None:
        if guarded(lambda: self._client.get(self._keys.opening)) == self._me:
            guarded(lambda: self._client.delete(self._keys.opening))

    def beat(self) -> int:
        """Count a beat. It is less than the record has where Redis came back older than it was."""
        return int(guarded(lambda: self._client.incr(self._keys.beat)))

    def wipe(self) -> None:
        """Take away what is left of an earlier epoch: runs that had not ended, and all that speaks of them."""
        for pattern in STALE:
            self._unlink(self._found(f"{self._keys.namespace}:{pattern}"))
        base = self._keys.run("")
        runs = {key.removeprefix(base).split(":")[0] for key in self._found(f"{base}*")}
        for run in runs:
            if guarded(lambda run=run: self._client.hget(self._keys.run(run), ":status")) not in ENDED:  # type: ignore[misc]
                self._unlink([self._keys.run(run, part) for part in PARTS])

    def _found(self, pattern: str) -> list[str]:
        return guarded(lambda: list(self._client.scan_iter(pattern, count=PAGE)))  # type: ignore[no-any-return]

    def _unlink(self, names: list[str]) -> None:
        for start in range(0, len(names), PAGE):
            guarded(lambda start=start: self._client.unlink(*names[start : start + PAGE]))  # type: ignore[misc]
