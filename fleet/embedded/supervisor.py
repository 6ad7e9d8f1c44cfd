"""Keeps child processes alive: what dies is started again with backoff and counted; none is left behind."""

import signal
import threading
import time
from collections.abc import Callable

from fleet.embedded.child import Backoff, Child, ChildSpec

POLL = 0.05
APART = 0.3
"""Seconds between two signals, which at once would be one."""
HURRIED = 3.0
"""Seconds from the second signal to SIGKILL: a worker hands its steps back, Redis writes what it has."""


class Supervisor:
    """Usable from any thread. One thread starts, watches and reaps every child, and lives until the last has ended: the
    kernel ties a child to the thread that started it (see shim).

    on_change: called in that thread after a child was started or died.
    """

    def __init__(self, backoff: Backoff | None = None, on_change: Callable[[], None] = lambda: None) -> None:
        self._backoff = backoff or Backoff()
        self.on_change = on_change
        self._children: dict[str, Child] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._hurried = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, spec: ChildSpec) -> None:
        """Starts a child and keeps it alive until stop(). Raises ValueError for a name that is taken."""
        with self._lock:
            if spec.name in self._children:
                raise ValueError(f"a child named {spec.name} is kept already")
            if self._stopping:
                raise ValueError("the supervisor is stopping")
            self._children[spec.name] = Child(spec=spec)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="fleet-supervisor", daemon=True)
                self._thread.start()
        self._wake.set()

    def restarts(self, name: str) -> int:
        """How often the child was started again. Raises KeyError for an unknown name."""
        with self._lock:
            return self._children[name].restarts

    def counts(self) -> dict[str, int]:
        """Restarts of every child by its name."""
        with self._lock:
            return {name: child.restarts for name, child in self._children.items()}

    def codes(self) -> dict[str, int]:
        """What every child last ended with, by its name: its exit code, or a signal's number below zero."""
        with self._lock:
            return {name: child.code for name, child in self._children.items()}

    def pids(self) -> dict[str, int]:
        """Process ids of the children that are alive, by name."""
        with self._lock:
            return {name: child.process.pid for name, child in self._children.items() if child.process is not None}

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Signals a child, as an accident would; it is started again. Raises KeyError for an unknown name."""
        with self._lock:
            self._children[name].tell(number)

    def stop(self, grace: float = 30.0) -> None:
        """SIGTERM to all, SIGKILL after `grace` seconds or hurry(). Returns when none is left. May be called twice."""
        with self._lock:
            first, self._stopping = not self._stopping, True
            children = list(self._children.values())
            if first:
                for child in children:
                    child.tell(signal.SIGTERM)
        if self._thread is None:
            return
        self._wake.set()
        if not self._ended_within(grace, self._hurried) and not self._ended_within(APART):
            self._insist(children)
        with self._lock:
            for child in children:
                child.kill()
        self._thread.join()

    def hurry(self) -> None:
        """Cuts the grace of a stop() short: SIGTERM again, and SIGKILL seconds later. Safe in a signal handler."""
        self._hurried.set()

    def _insist(self, children: list[Child]) -> None:
        with self._lock:
            for child in children:
                child.tell(signal.SIGTERM)
        self._ended_within(HURRIED)

    def _ended_within(self, seconds: float, hurried: threading.Event | None = None) -> bool:
        """Whether all have ended, within so many seconds and before it was hurried."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not (hurried and hurried.is_set()):
            self._thread.join(POLL)  # type: ignore[union-attr]
            if not self._thread.is_alive():  # type: ignore[union-attr]
                return True
        return False

    def _watch(self) -> None:
        while True:
            with self._lock:
                changed = [self._look_after(child, time.monotonic()) for child in self._children.values()]
                over = self._stopping and not any(child.process for child in self._children.values())
            if any(changed):
                self.on_change()
            if over:
                return
            self._wake.wait(POLL)
            self._wake.clear()

    def _look_after(self, child: Child, now: float) -> bool:
        """Whether something changed."""
        if child.process is not None:
            if not child.has_ended():
                return False
            child.fail(now, self._backoff)
            return True
        if self._stopping or now < child.due:
            return False
        if child.started:
            child.restarts += 1
        try:
            child.start(now)
        except OSError:  # no memory, no file handles, no space: as good as a death
            child.fail(now, self._backoff)
        return True
