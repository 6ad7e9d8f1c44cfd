"""What Celery's own event receiver, and so Flower, makes of what it is told of attempts."""

from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery, states
from celery.events.state import State, Task
from fleet._apps.scheduler.flower import WHY, Losses
from fleet._apps.scheduler.main import Scheduler
from fleet._apps.tasks.flower import StepEvents

from fleet import names
from fleet.app import make_app
from fleet.engine.deps import Deps
from fleet.engine.holding import Holding
from fleet.engine.slot import Slot
from fleet.store.steps import Lost, Place
from fleet.tools.decorator import tool
from fleet.tools.tool import ToolFailed
from tests.acceptance.conftest import until
from tests.engine.fleetlet import HERE, a_step, planned, with_tools
from tests.servers import RedisProcess

NODE = "w1@here"


class Monitor:
    """A receiver that listens, and what it knows by now."""

    def __init__(self, app: Celery, connection: Any) -> None:
        self.state: State = app.events.State()
        self._app = app
        self._connection = connection

    def hears_a_probe(self) -> bool:
        with self._app.events.default_dispatcher(hostname="probe@here") as dispatcher:
            dispatcher.send("worker-heartbeat", freq=60)
        self._hear()
        return "probe@here" in self.state.workers

    def task(self, uuid: str, state: str) -> Task:
        """The task, once it is in this state."""

        def there() -> bool:
            self._hear()
            return uuid in self.state.tasks and self.state.tasks[uuid].state == state

        until(there)
        return self.state.tasks[uuid]

    def _hear(self) -> None:
        with suppress(TimeoutError):
            self._connection.drain_events(timeout=0.1)


@pytest.fixture
def app(redis_server: RedisProcess, deps: Deps) -> Iterator[Celery]:
    made = make_app(redis_server.url, deps.settings.namespace)
    yield made
    made.pool.force_close_all()
    made.close()


@pytest.fixture
def monitor(app: Celery) -> Iterator[Monitor]:
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection)
        with receiver.consumer_context(wakeup=False) as (_, channel, _):
            monitor = Monitor(app, channel.connection.client)
            receiver.handlers["*"] = monitor.state.event
            until(monitor.hears_a_probe)
            yield monitor


@pytest.fixture
def events(app: Celery) -> Iterator[StepEvents]:
    """As in a worker named NODE."""
    told = StepEvents()
    with app.events.default_dispatcher(hostname=NODE) as dispatcher:
        told.start(SimpleNamespace(event_dispatcher=dispatcher))
        yield told
        told.stop()


def test_a_step_that_failed_shows_how_long_it_ran(deps: Deps, events: StepEvents, monitor: Monitor) -> None:
    """R33 in part: the seconds of its try, and no others."""
    now = [1000.0]

    @tool(effect="reads", breaker=None)
    def act() -> None:
        now[0] += 2.5
        raise ToolFailed("broken", "it broke")

    deps.clock = lambda: now[0]
    run = planned(with_tools(deps, act), a_step())
    Slot(deps, Holding(), HERE, events).carry(None)
    assert monitor.task(names.task_id(run, "a", 1), states.FAILURE).runtime == 2.5
    assert monitor.task(names.task_id(run, "join.1", 1), states.SUCCESS).runtime > 0


@pytest.mark.parametrize(("again", "state"), [(True, states.RETRY), (False, states.FAILURE)])
def test_an_attempt_whose_worker_was_lost_has_ended_for_monitors(
    again: bool, state: str, deps: Deps, app: Celery, events: StepEvents, monitor: Monitor
) -> None:
    """R33 in part: retried where the step runs again, failed where it is dead; told of the worker that was lost."""
    run = planned(deps, a_step())
    attempt, _ = deps.live.steps.claim(HERE)
    assert attempt is not None
    events.started(attempt)
    uuid = names.task_id(run, "a", 1)
    monitor.task(uuid, states.STARTED)
    Losses(app, 15.0)([Lost(run, "a", attempt.fence, 1, f"{NODE}.77")], again)
    task = monitor.task(uuid, state)
    assert (task.exception, task.worker.hostname, task.args) == (WHY, NODE, repr((run, "a", 1)))
    assert set(monitor.state.workers) == {"probe@here", NODE}


def test_each_lost_attempt_of_a_step_ends_and_the_last_one_as_a_failure(
    deps: Deps, app: Celery, events: StepEvents, monitor: Monitor
) -> None:
    """R33 in part: by the scheduler, which takes the step back; the third worker that it costs is the last."""
    run = planned(deps, a_step())
    scheduler = Scheduler(deps, Losses(app, 0.0))
    for number, state in enumerate((states.RETRY, states.RETRY, states.FAILURE), 1):
        attempt, _ = deps.live.steps.claim(Place(f"{NODE}.77", "main", 0.0))
        assert attempt is not None
        events.started(attempt)
        monitor.task(names.task_id(run, "a", number), states.STARTED)
        scheduler.tick()
        assert monitor.task(names.task_id(run, "a", number), state).worker.hostname == NODE


def test_news_of_a_loss_is_no_sign_of_life(app: Celery, monitor: Monitor) -> None:
    """R33 in part: a monitor that heard of nothing else does not take the worker for alive."""
    Losses(app, 15.0)([Lost("r", "a", "1.2", 1, f"{NODE}.77")], True)
    worker = monitor.task("r:a:2", states.RETRY).worker
    worker.freq = 2
    assert not worker.alive
