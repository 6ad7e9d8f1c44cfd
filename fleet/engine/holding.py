"""The attempts that a worker process holds right now, and whether it is being stopped."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from fleet.core.attempt import Attempt
from fleet.store.steps import Held


@dataclass(slots=True)
class Hold:
    """One attempt in a slot. stopped is set when its outcome is no more wanted; why says who said so."""

    attempt: Attempt
    stopped: bool = False
    why: str = ""
    on_stop: Callable[[], object] | None = None

    def is_stopped(self) -> bool:
        return self.stopped

    @property
    def cancelled(self) -> bool:
        """Whether the run is being cancelled (and not: the attempt is stale, hung or superseded)."""
        return self.stopped and self.why == "CANCELLED"

    def cancel(self, why: str) -> None:
        if self.stopped:
            return
        self.why, self.stopped = why, True
        if self.on_stop is not None:
            self.on_stop()


class Holding:
    """Thread safe. Slots add and remove; the heartbeat reads and cancels."""

    def __init__(self) -> None:
        self._holds: dict[tuple[str, str, str], Hold] = {}
        self._lock = threading.Lock()
        self.stopping = threading.Event()

    def add(self, attempt: Attempt) -> Hold:
        hold = Hold(attempt)
        with self._lock:
            self._holds[_key(attempt)] = hold
        return hold

    def remove(self, hold: Hold) -> None:
        with self._lock:
            self._holds.pop(_key(hold.attempt), None)

    def held(self) -> list[Held]:
        with self._lock:
            attempts = [hold.attempt for hold in self._holds.values()]
        return [Held(a.context.run, a.step.id, a.fence, a.step.lane) for a in attempts]

    def stuck(self) -> int:
        """Attempts that hold their slot though their lease is gone: the tool does not heed that it should stop."""
        with self._lock:
            return sum(hold.stopped and not hold.cancelled for hold in self._holds.values())

    def hand_back(self) -> None:
        """Tell every attempt to stop: its step goes to another worker, and is no loss."""
        with self._lock:
            holds = list(self._holds.values())
        for hold in holds:
            hold.cancel("STOPPING")

    def cancel(self, key: tuple[str, str, str], why: str) -> None:
        with self._lock:
            hold = self._holds.get(key)
        if hold:
            hold.cancel(why)


def _key(attempt: Attempt) -> tuple[str, str, str]:
    return attempt.context.run, attempt.step.id, attempt.fence
