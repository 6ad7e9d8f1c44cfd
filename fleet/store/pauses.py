"""Runs that are paused: what is ready in them is held, out of the way of claims, until they go on."""

import redis

from fleet.store.keys import Keys
from fleet.store.scripts import Scripts, guarded
from fleet.store.steps import MOST_WAKES


class Pauses:
    """Each change of a run has a number: one that was decided before a later pause was asked for is not made."""

    def __init__(self, client: "redis.Redis", scripts: Scripts, keys: Keys) -> None:
        self._client = client
        self._scripts = scripts
        self._keys = keys

    def number(self, run: str) -> str:
        """The number of the newest change of a run; `0` for none. Read it before you decide to let a run go on."""
        return guarded(lambda: self._client.hget(self._keys.run(run), ":shifts")) or "0"

    def hold(self, run: str) -> bool | None:
        """Pause a run: nothing of it is claimed from here on.

        False where it has ended or is being cancelled, None where it has no live state.
        """
        answer, *number = self._scripts.call("pause", run)
        if number:
            self._shift(run, str(number[0]))
            return True
        return False if answer == "CLOSED" else None

    def release(self, run: str, status: str, number: str) -> bool:
        """Let a paused run go on as `status` (running or asking); False where it was not paused, or was again since."""
        _, *found = self._scripts.call("resume", run, status, number)
        if found:
            self._shift(run, str(found[0]))
        return bool(found)

    def go_on(self, run: str) -> None:
        """Carry out what a process left half-way."""
        self._shift(run, self.number(run))

    def paused(self) -> list[str]:
        return sorted(guarded(lambda: self._client.smembers(self._keys.paused)))

    def shifting(self) -> list[str]:
        """Runs whose newest change is not carried out yet."""
        return sorted(guarded(lambda: self._client.smembers(self._keys.shifting)))

    def _shift(self, run: str, number: str) -> None:
        cursor = "0"
        while True:
            cursor = self._scripts.call("shift", run, cursor, number, MOST_WAKES)[0]
            if cursor in ("0", "LATER"):
                return
