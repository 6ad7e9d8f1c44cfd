"""The attempts that a worker process holds right now, and whether it is being stopped."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fleet.core.attempt import Attempt
from fleet.store.steps import Held


class Board(Protocol):
    """Where another process sees what is held, though this one's interpreter may be locked up by a step."""

    def put(self, run: str, step: str, fence: str, lane: str) -> int | None:
        """Note an attempt: its place, or None where there is no room for it."""

    def wipe(self, place: int) -> None: ...


@dataclass(slots=True)
class Hold:
    """One attempt in a slot. stopped is set when its outcome is no more wanted; why says who said so.

    place: on the board, if it is noted there. since: when (monotonic) it was stopped.
    """

    attempt: Attempt
    stopped: bool = False
    why: str = ""
    on_stop: Callable[[], object] | None = None
    place: int | None = None
    since: float = 0.0

    def is_stopped(self) -> bool:
        return self.stopped

    @property
    def cancelled(self) -> bool:
        """Whether the run is being cancelled (and not: the attempt is stale, hung or superseded)."""
        return self.stopped and self.why == "CANCELLED"

    def cancel(self, why: str) -> None:
        if self.stopped:
            return
        self.since = time.monotonic()
        self.why, self.stopped = why, True
        if self.on_stop is not None:
            self.on_stop()


class Holding:
    """Thread safe. Slots add and remove; the heartbeat reads and cancels."""

    def __init__(self, board: Board | None = None) -> None:
        self._holds: dict[tuple[str, str, str], Hold] = {}
        self._lock = threading.Lock()
        self._board = board
        self.stopping = threading.Event()

    def add(self, attempt: Attempt) -> Hold:
        """An attempt is held before it is noted, so that what is heard of a note always finds its hold."""
        hold = Hold(attempt)
        with self._lock:
            self._holds[_key(attempt)] = hold
        if self._board is not None:
            hold.place = self._board.put(attempt.context.run, attempt.step.id, attempt.fence, attempt.step.lane)
        return hold

    def remove(self, hold: Hold) -> None:
        place, hold.place = hold.place, None
        if place is not None and self._board is not None:
            self._board.wipe(place)
        with self._lock:
            self._holds.pop(_key(hold.attempt), None)

    def held(self) -> list[Held]:
        with self._lock:
            return [_held(hold.attempt) for hold in self._holds.values()]

    def attempts(self) -> list[Attempt]:
        with self._lock:
            return [hold.attempt for hold in self._holds.values()]

    def unnoted(self) -> list[Held]:
        """Those for which the board has no room."""
        with self._lock:
            return [_held(hold.attempt) for hold in self._holds.values() if hold.place is None]

    def stuck(self, patience: float = 0.0) -> int:
        """Attempts that hold their slot though their lease is gone: the tool does not heed that it should stop.

        patience: seconds that it has to heed it.
        """
        before = time.monotonic() - patience
        with self._lock:
            return sum(hold.stopped and not hold.cancelled and hold.since <= before for hold in self._holds.values())

    def hand_back(self) -> None:
        """Tell every attempt to stop: its step goes to another worker, and is no loss."""
        with self._lock:
            holds = list(self._holds.values())
        for hold in holds:
            hold.cancel("STOPPING")

    def cancel(self, key: tuple[str, str, str], why: str) -> bool:
        """Whether the attempt is still held: one that was just committed is refused, too, and nobody minds."""
        with self._lock:
            hold = self._holds.get(key)
        if hold:
            hold.cancel(why)
        return hold is not None


def _key(attempt: Attempt) -> tuple[str, str, str]:
    return attempt.context.run, attempt.step.id, attempt.fence


def _held(attempt: Attempt) -> Held:
    return Held(attempt.context.run, attempt.step.id, attempt.fence, attempt.step.lane)
