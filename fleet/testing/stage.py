"""Runs one actor at a time, each in a thread of its own that waits for its turn; whose turn it is, others decide."""

import _thread
import threading
from collections.abc import Callable
from typing import Any

from fleet.testing.faults import Crashed
from fleet.testing.portal import close_loop

BEGUN = 10.0
"""Seconds that a thread may take to end."""


class Actor:
    """Work under way. doomed: its process has died. error: what it failed with, other than by dying."""

    def __init__(self, owner: Any, work: Callable[[], object]) -> None:
        self.owner = owner
        self.work = work
        self.doomed = False
        self.done = False
        self.until = 0.0
        self.attempt: Any = None
        self.error: BaseException | None = None
        self.runner: Runner | None = None


class Runner:
    """A thread that plays one actor after another."""

    def __init__(self, stage: "Stage") -> None:
        self.go = _thread.allocate_lock()
        self.go.acquire()
        self._stage = stage
        self.actor: Actor | None = None
        self.thread = threading.Thread(target=self._play, name="fleet-actor", daemon=True)
        self.thread.start()

    def _play(self) -> None:
        while True:
            self.go.acquire()
            actor = self.actor
            if actor is None:
                close_loop()
                return
            try:
                actor.work()
            except Crashed:
                close_loop()
            except BaseException as error:
                actor.error = error
            actor.done, actor.runner, self.actor = True, None, None
            self._stage.returned(self)


class Stage:
    """Threads are kept for further actors. Everything but `pause` is called from the thread that directs."""

    def __init__(self) -> None:
        self.current: Actor | None = None
        self._back = _thread.allocate_lock()
        self._back.acquire()
        self._idle: list[Runner] = []
        self._all: list[Runner] = []

    def play(self, actor: Actor) -> None:
        """Give an actor its turn, until it pauses or has ended. Raises what it failed with."""
        if actor.runner is None:
            actor.runner = self._runner()
            actor.runner.actor = actor
        self.current = actor
        actor.runner.go.release()
        self._back.acquire()
        self.current = None
        if actor.error is not None:
            raise actor.error

    def pause(self) -> None:
        """Give the turn back. Raises Crashed where the actor's process has died meanwhile."""
        actor = self.current
        if actor is None or actor.runner is None:
            return
        go = actor.runner.go
        self._back.release()
        go.acquire()
        if actor.doomed:
            raise Crashed

    def returned(self, runner: Runner) -> None:
        self._idle.append(runner)
        self._back.release()

    def close(self) -> None:
        """End the threads; every actor has to have ended."""
        for runner in self._idle:
            runner.go.release()
        for runner in self._idle:
            runner.thread.join(BEGUN)

    def _runner(self) -> Runner:
        return self._idle.pop() if self._idle else Runner(self)
