"""Breaker counters: one breaker a tool or model for the whole fleet."""

import redis

from fleet.core.breaker import BreakerPolicy, BreakerState
from fleet.store.keys import Keys
from fleet.store.scripts import Scripts, guarded


class Breakers:
    """The rule is fleet.core.breaker's; the counting is atomic in Redis."""

    def __init__(self, client: "redis.Redis", scripts: Scripts, keys: Keys) -> None:
        self._client = client
        self._scripts = scripts
        self._keys = keys

    def admit(self, name: str, policy: BreakerPolicy) -> tuple[BreakerState, float]:
        """Whether a call may be made: open gives the seconds to wait; half_open makes this caller the single probe."""
        state, wait = self._scripts.call("admit", name, round(policy.rest * 1000))
        return BreakerState(state), int(wait) / 1000

    def tally(self, name: str, policy: BreakerPolicy, *, good: bool) -> tuple[BreakerState, bool]:
        """Count how a call went: the state after it, and whether this call changed it."""
        state, changed = self._scripts.call(
            "tally", name, int(good), policy.failures, round(policy.window * 1000), round(policy.rest * 1000)
        )
        return BreakerState(state), bool(changed)

    def state(self, name: str) -> BreakerState:
        """The state as people see it, without asking for a probe."""
        return BreakerState(guarded(lambda: self._client.hget(self._keys.breaker(name), "state")) or "closed")
