"""Steps that were claimed for a worker whose slots never heard of it: the answer was lost with a connection."""

import logging

from fleet.engine.deps import Deps
from fleet.engine.holding import Holding
from fleet.store.steps import Held, Place

LATE = 1.2
"""A lease that was not renewed for so many heartbeats is none of those that the worker knows of."""
REASON = "the answer to its claim was lost"
log = logging.getLogger("fleet.unheard")


class Unheard:
    """Hands such steps back, which is no loss, long before their lease runs out.

    An answer that is on its way, or was read by a slot that has not come to hold it, looks alike for a moment: so it
    takes two looks in a row to hand a step back. If its slot hears of it after all, it is late, and is told so.
    """

    def __init__(self, deps: Deps, holding: Holding, place: Place) -> None:
        self._deps = deps
        self._holding = holding
        self._place = place
        self._within = max(0.0, place.lease - LATE * deps.settings.heartbeat)
        self._seen: set[Held] = set()

    def look(self) -> int:
        """To be called about once a heartbeat: how many steps were handed back. Raises StoreUnreachable."""
        strays = set(self._deps.live.steps.strays(self._place, self._within))
        unheard = strays.difference(self._holding.held())  # asked second: a slot may have come to hold one meanwhile
        again, self._seen = unheard & self._seen, unheard
        for held in again:
            self._deps.live.steps.hand_back(held, REASON, self._place)
            log.warning("step %s is handed back: %s", held.step, REASON, extra={"run": held.run})
        return len(again)
