"""The three Celery tasks. Decode, carry: everything that can be wrong is in the engine.

A message only wakes a slot: the slot claims the step that the message was sent for if that is the best it may run, else
the best, and goes on. Each step is told to Flower by itself, so the tasks send no events of their own.
"""

from collections.abc import Callable

from celery import Celery

from fleet import names
from fleet.store.shapes import Wake

Carry = Callable[[Wake], int]


def register(app: Celery, carry: Carry) -> None:
    """Register the tasks on an app. carry: runs a slot from a wake-up on."""

    def wake(run_id: str, step_id: str) -> None:
        carry(Wake(run_id, step_id))

    for name in (names.PLAN, names.STEP, names.JOIN):
        app.task(wake, name=name, send_events=False, ignore_result=True, typing=False)
