"""Tells Flower of every step as a task, named for what it does, with run, step and attempt and nothing else."""

import logging
from typing import Any

from fleet.core.attempt import Attempt
from fleet.core.outcome import Status
from fleet.engine.moves import Park, Result

log = logging.getLogger("fleet.flower")


class StepEvents:
    """Sends Celery's own task events through the worker's dispatcher. A monitor that is away costs nothing."""

    def __init__(self) -> None:
        self.dispatcher: Any = None

    def started(self, attempt: Attempt) -> None:
        if self.dispatcher is None:
            return
        args = (attempt.context.run, attempt.step.id, attempt.number)
        self._send(
            "task-received",
            uuid=_uuid(attempt),
            name=_name(attempt),
            args=repr(args),
            kwargs="{}",
            root_id=attempt.context.run,
            parent_id=None,
            retries=attempt.retries,
            eta=None,
            expires=None,
        )
        self._send("task-started", uuid=_uuid(attempt))

    def ended(self, attempt: Attempt, result: Result) -> None:
        if self.dispatcher is None:
            return
        if isinstance(result, Park):
            self._send("task-retried", uuid=_uuid(attempt), exception=_why(result), traceback="")
            return
        outcome = result.outcome
        if outcome.status is Status.SUCCEEDED:
            self._send("task-succeeded", uuid=_uuid(attempt), result="", runtime=outcome.seconds)
            return
        why = outcome.failure.type if outcome.failure else outcome.status.value
        self._send("task-failed", uuid=_uuid(attempt), exception=why, traceback="", runtime=outcome.seconds)

    def _send(self, kind: str, **fields: Any) -> None:
        try:
            self.dispatcher.send(kind, **fields)
        except Exception as lost:
            log.debug("a task event was lost: %s", lost)


def _why(park: Park) -> str:
    """The type of what went wrong, without its message, in which a tool may have put anything."""
    return park.reason.partition(":")[0][:80] if park.retry else "not now"


def _uuid(attempt: Attempt) -> str:
    return f"{attempt.context.run}:{attempt.step.id}:{attempt.number}"


def _name(attempt: Attempt) -> str:
    """What the step does: from a fixed list, so that monitors may use it as a label."""
    return f"fleet.tool.{attempt.step.tool}" if attempt.step.kind == "tool" else f"fleet.{attempt.step.kind}"
