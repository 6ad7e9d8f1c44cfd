"""Kills a process of a fleet every few seconds, as an accident would: which one, chance says."""

import random
import threading
from collections import Counter
from types import TracebackType

from fleet.embedded.fleet import EmbeddedFleet


class Kills:
    """A context manager: kills while it is open. by: how often each process was killed.

    Those that are being started again at the moment are not chosen. most: kills after which it stops.
    """

    def __init__(self, fleet: EmbeddedFleet, every: float, seed: int, most: int | None = None) -> None:
        self.by: Counter[str] = Counter()
        self._fleet = fleet
        self._every = every
        self._most = most
        self._chance = random.Random(seed)  # noqa: S311 - chance, no secret
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="kills", daemon=True)

    def __enter__(self) -> "Kills":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._over.wait(self._every) and self.by.total() != self._most:
            alive = sorted(set(self._fleet.pids()) - {"redis"})
            if alive:
                name = self._chance.choice(alive)
                self._fleet.kill(name)
                self.by[name] += 1
