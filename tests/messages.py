"""Messages as Celery's own producer sends them: sent by hand in tests, and what the scripts' are compared with."""

from collections.abc import Iterable

from celery import Celery

from fleet import names
from fleet.app import queue_of
from fleet.core.ids import JOIN, PLAN
from fleet.store.shapes import Wake


def task_of(step: str) -> str:
    """The wire name of the task that carries a step."""
    if step.startswith(PLAN):
        return names.PLAN
    return names.JOIN if step.startswith(JOIN) else names.STEP


def send(app: Celery, wakes: Iterable[Wake]) -> None:
    with app.producer_pool.acquire(block=True) as producer:
        for wake in wakes:
            app.send_task(
                task_of(wake.step),
                (wake.run, wake.step),
                producer=producer,
                exchange="",
                routing_key=queue_of(wake.lane),
                ignore_result=True,
                retry=False,
            )
