"""Tells Flower of every step as a task, named for what it does, with run, step and attempt and nothing else."""

import json
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

    A slot's thread only leaves a note. A monitor that is away never holds a step up.
    """

    def __init__(self) -> None:
        self._consumer: Any = None
        self._notes: deque[tuple[float, Attempt, Result | None]] = deque()
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
        if self._consumer is not None:
            self._notes.append((time.time(), attempt, None))

    def ended(self, attempt: Attempt, result: Result) -> None:
        if self._consumer is not None:
            self._notes.append((time.time(), attempt, result))

    def _send_on(self) -> None:
        while not self._stop.wait(EVERY):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        while self._notes:
            dispatcher = self._consumer.event_dispatcher
            if dispatcher is None or not dispatcher.enabled:
                self._notes.clear()
                self._since.clear()
                return
            batch: list[str] = []
            while self._notes and len(batch) < MOST:
                batch += self._events(*self._notes.popleft())
            try:
                self._send(batch, dispatcher)
            except Exception as lost:
                log.debug("task events were lost: %s", lost)

    def _events(self, now: float, attempt: Attempt, result: Result | None) -> list[str]:
        """Celery's events as JSON without its last part, which all events of a message have in common."""
        uuid = _uuid(attempt)
        about = f'"uuid":"{uuid}","timestamp":{now}'
        if result is not None:
            took = max(0.0, now - self._since.pop(uuid, now))
            return [f"{{{about},{_told(result, took)}"]
        self._since[uuid] = now
        args = f"('{attempt.context.run}', '{attempt.step.id}', {attempt.number})"
        received = f'"name":"{_name(attempt)}","args":"{args}","kwargs":"{{}}","root_id":"{attempt.context.run}"'
        received += f',"parent_id":null,"retries":{attempt.retries},"eta":null,"expires":null'
        return [f'{{{about},"type":"task-received",{received}', f'{{{about},"type":"task-started"']

    def _send(self, batch: list[str], dispatcher: Any) -> None:
        """The text is made here: to have it made of 1,500 objects takes the time of 500 short steps."""
        who = f'"hostname":{json.dumps(dispatcher.hostname)},"pid":{dispatcher.pid},"utcoffset":{utcoffset()}'
        body = ",".join(f'{event},{who},"clock":{dispatcher.clock.forward()}}}' for event in batch)
        with dispatcher.mutex:
            dispatcher.producer.publish(
                f"[{body}]",
                routing_key="task.multi",
                exchange=dispatcher.exchange.name,
                declare=[dispatcher.exchange],
                headers=dispatcher.headers,
                delivery_mode=dispatcher.delivery_mode,
                content_type="application/json",
                content_encoding="utf-8",
            )


def _told(result: Result, took: float) -> str:
    """took: seconds in the slot, which stand for the outcome's own where it has none."""
    if isinstance(result, Park):
        return f'"type":"task-retried","exception":{json.dumps(_why(result))},"traceback":""'
    outcome = result.outcome
    seconds = outcome.seconds or took
    if outcome.status is Status.SUCCEEDED:
        return f'"type":"task-succeeded","result":"","runtime":{seconds}'
    why = json.dumps(outcome.failure.type if outcome.failure else outcome.status.value)
    return f'"type":"task-failed","exception":{why},"traceback":"","runtime":{seconds}'


def _why(park: Park) -> str:
    """The type of what went wrong, without its message, in which a tool may have put anything."""
    return park.reason.partition(":")[0][:80] if park.retry else "not now"


def _uuid(attempt: Attempt) -> str:
    return names.task_id(attempt.context.run, attempt.step.id, attempt.number)


def _name(attempt: Attempt) -> str:
    """What the step does: from a fixed list, so that monitors may use it as a label."""
    return f"fleet.tool.{attempt.step.tool}" if attempt.step.kind == "tool" else f"fleet.{attempt.step.kind}"
