"""Tells Flower of every step as a task, named for what it does, with run, step and attempt and nothing else."""

import logging
import threading
import time
from collections import deque
from typing import Any

from celery.utils.time import utcoffset

from fleet import names
from fleet.core.attempt import Attempt
from fleet.core.outcome import Status
from fleet.engine.moves import Park, Result

log = logging.getLogger("fleet.flower")


EVERY = 0.2
"""Seconds between two messages to monitors."""
MOST = 500
"""Events in one message."""


class StepEvents:
    """Sends Celery's own task events through the worker's dispatcher, many in one message, from a thread of its own.

    Costs about 0.08 ms of CPU a step, off the slot's thread. A monitor that is away never holds a step up.
    """

    def __init__(self) -> None:
        self._consumer: Any = None
        self._pending: deque[dict[str, Any]] = deque()
        self._since: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send_on, name="fleet-events", daemon=True)

    def start(self, consumer: Any) -> None:
        """consumer: the worker's, whose dispatcher is another one after each reconnect."""
        self._consumer = consumer
        self._thread.start()

    def stop(self) -> None:
        """Sends what is left."""
        if self._consumer is not None:
            self._stop.set()
            self._thread.join(EVERY * 10)

    def started(self, attempt: Attempt) -> None:
        if self._consumer is None:
            return
        uuid, now = _uuid(attempt), time.time()
        args = repr((attempt.context.run, attempt.step.id, attempt.number))
        about: dict[str, Any] = {"name": _name(attempt), "args": args, "kwargs": "{}", "root_id": attempt.context.run}
        about |= {"parent_id": None, "retries": attempt.retries, "eta": None, "expires": None}
        self._since[uuid] = now
        self._pending.append({"type": "task-received", "timestamp": now, "uuid": uuid, **about})
        self._pending.append({"type": "task-started", "timestamp": now, "uuid": uuid})

    def ended(self, attempt: Attempt, result: Result) -> None:
        if self._consumer is None:
            return
        uuid, now = _uuid(attempt), time.time()
        took = max(0.0, now - self._since.pop(uuid, now))
        self._pending.append({"timestamp": now, "uuid": uuid, **_told(result, took)})

    def _send_on(self) -> None:
        while not self._stop.wait(EVERY):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        while self._pending:
            dispatcher = self._consumer.event_dispatcher
            if dispatcher is None or not dispatcher.enabled:
                self._pending.clear()
                return
            about = {"hostname": dispatcher.hostname, "pid": dispatcher.pid, "utcoffset": utcoffset()}
            batch: list[dict[str, Any]] = []
            while self._pending and len(batch) < MOST:
                batch.append({**self._pending.popleft(), **about, "clock": dispatcher.clock.forward()})
            try:
                with dispatcher.mutex:
                    dispatcher._publish(batch, dispatcher.producer, "task.multi")
            except Exception as lost:
                log.debug("task events were lost: %s", lost)


def _told(result: Result, took: float) -> dict[str, Any]:
    """took: seconds in the slot, which stand for the outcome's own where it has none."""
    if isinstance(result, Park):
        return {"type": "task-retried", "exception": _why(result), "traceback": ""}
    outcome = result.outcome
    seconds = outcome.seconds or took
    if outcome.status is Status.SUCCEEDED:
        return {"type": "task-succeeded", "result": "", "runtime": seconds}
    why = outcome.failure.type if outcome.failure else outcome.status.value
    return {"type": "task-failed", "exception": why, "traceback": "", "runtime": seconds}


def _why(park: Park) -> str:
    """The type of what went wrong, without its message, in which a tool may have put anything."""
    return park.reason.partition(":")[0][:80] if park.retry else "not now"


def _uuid(attempt: Attempt) -> str:
    return names.task_id(attempt.context.run, attempt.step.id, attempt.number)


def _name(attempt: Attempt) -> str:
    """What the step does: from a fixed list, so that monitors may use it as a label."""
    return f"fleet.tool.{attempt.step.tool}" if attempt.step.kind == "tool" else f"fleet.{attempt.step.kind}"
