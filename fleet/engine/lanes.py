"""Lanes in which steps wait though no live worker serves them: what is said of them, and when."""

import logging
import time
from collections.abc import Callable

from fleet.engine.deps import Deps

log = logging.getLogger("fleet.lanes")
PERIOD = 60.0
"""Seconds after which a lane that is still unserved is warned of again."""
EVERY = 1.0
"""Seconds between two looks."""


def way_out(lane: str) -> str:
    return f"start one with `fleet worker --lanes {lane}`"


class LaneWatch:
    """Warns of each lane once a period, as soon as it has been unserved for a lease: a worker may be on its way.

    clock: seconds that only grow.
    """

    def __init__(self, deps: Deps, clock: Callable[[], float] = time.monotonic) -> None:
        self._deps = deps
        self._clock = clock
        self._cursor = 0
        self._looked = float("-inf")
        self._since: dict[str, float] = {}
        self._told: dict[str, float] = {}
        self._met: set[str] = set()

    def look(self) -> None:
        """Look at the next part of the ready sets. Raises StoreUnreachable."""
        now = self._clock()
        if now - self._looked < EVERY:
            return
        self._looked = now
        serving = self._deps.live.serving
        self._cursor, ready = serving.look(self._cursor)
        unserved = serving.unserved(ready)
        self._met.update(unserved)
        for lane in unserved:
            self._heed(lane, ready[lane], now)
        if self._cursor == 0:
            self._forget()

    def _heed(self, lane: str, steps: int, now: float) -> None:
        since = self._since.setdefault(lane, now)
        if now - since < self._deps.settings.lease or now - self._told.get(lane, float("-inf")) < PERIOD:
            return
        self._told[lane] = now
        log.warning("%d ready steps wait for lane %s, which no live worker serves: %s", steps, lane, way_out(lane))

    def _forget(self) -> None:
        """A walk is over: what it did not meet is served again, or empty."""
        self._since = {lane: since for lane, since in self._since.items() if lane in self._met}
        self._told = {lane: told for lane, told in self._told.items() if lane in self._met}
        self._met = set()
