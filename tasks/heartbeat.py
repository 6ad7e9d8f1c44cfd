"""A worker's heartbeat: renews its leases, says how many slots it has, hears which attempts are no more wanted."""

import logging
import threading
from collections.abc import Callable

from fleet.engine.deps import Deps
from fleet.engine.holding import Holding
from fleet.errors import StoreUnreachable
from fleet.store.steps import Place

log = logging.getLogger("fleet.heartbeat")
PAGE = 200


class Heartbeat:
    """A thread that beats at once and until it is stopped. A worker that starts, or finds Redis again, wakes itself."""

    def __init__(
        self, deps: Deps, holding: Holding, place: Place, slots: int, on_stuck: Callable[[], None] = lambda: None
    ) -> None:
        """on_stuck: called at each beat that finds a quarter of the slots stuck in tools that do not stop."""
        self._deps = deps
        self._holding = holding
        self._place = place
        self._slots = slots
        self._on_stuck = on_stuck
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat_on, name="fleet-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(self._deps.settings.heartbeat * 2)
        try:
            self._deps.live.steps.leave(self._place.worker)
        except StoreUnreachable as away:
            log.warning("could not say goodbye: %s", away)

    def beat(self) -> None:
        """One beat. A stopping worker has no slots but those it holds: their leases are counted against them."""
        held = self._holding.held()
        stopping, stuck = self._holding.stopping.is_set(), self._holding.stuck()
        slots = len(held) if stopping else max(0, self._slots - stuck)
        if stuck * 4 >= self._slots and not stopping:
            log.error("%d of %d slots are stuck: the worker drains", stuck, self._slots)
            self._on_stuck()
        lifetime = self._deps.settings.lease
        for start in range(0, max(1, len(held)), PAGE):
            offered = slots if start == 0 else None
            refused = self._deps.live.steps.renew(self._place, offered, lifetime, held[start : start + PAGE])
            for key, why in refused.items():
                log.info("attempt %s of step %s is no more wanted: %s", key[2], key[1], why, extra={"run": key[0]})
                self._holding.cancel(key, why)

    def _beat_on(self) -> None:
        """Nothing ends it but stop: a worker that lives without a heartbeat loses every step it takes."""
        away = True
        while True:
            try:
                self.beat()
                if away:
                    self._deps.send(self._deps.live.steps.untold())
                away = False
            except StoreUnreachable as gone:
                log.warning("no heartbeat: %s", gone)
                away = True
            except Exception:
                log.exception("no heartbeat")
                away = True
            if self._stop.wait(self._deps.settings.heartbeat):
                return
