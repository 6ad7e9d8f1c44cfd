"""Tells Flower of attempts whose worker was lost: nobody else is left who would say that they have ended."""

import time
from collections.abc import Sequence
from typing import Any

from celery import Celery
from celery.utils.time import utcoffset

from fleet import names
from fleet.app import tell_monitors
from fleet.store.steps import Lost

WHY = "worker lost, or stuck"
DRIFT = 15.0
"""Seconds by which an event may be older than its message before monitors complain of a clock."""


class Losses:
    """Sends the event that ends an attempt under the name of its worker.

    The event is dated back to the time when the worker was last heard, since monitors take it as a sign of life.
    """

    def __init__(self, app: Celery, lease: float) -> None:
        """lease: seconds that a worker had been silent for when its attempts were taken back."""
        self._app = app
        self._silent = min(lease, DRIFT)

    def __call__(self, lost: Sequence[Lost], again: bool) -> None:
        """again: whether the steps are ready to run once more, or dead."""
        if lost:
            tell_monitors(self._app, [self._event(each, again) for each in lost])

    def _event(self, lost: Lost, again: bool) -> dict[str, Any]:
        """A step that runs again was retried as far as monitors are concerned; one that is dead has failed."""
        return {
            "type": "task-retried" if again else "task-failed",
            "uuid": names.task_id(lost.run, lost.step, int(lost.fence.rpartition(".")[2])),
            "hostname": names.node_of(lost.worker),
            "timestamp": time.time() - self._silent,
            "utcoffset": utcoffset(),
            "exception": WHY,
            "traceback": "",
        }
