"""A worker process: Celery's consumer with a pool of threads, one slot a thread."""

import logging
import os
import socket
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from celery import Celery, signals
from celery.platforms import SecurityWarning

from fleet import names
from fleet.app import make_app
from fleet.core.ids import WorkerId
from fleet.engine import recover
from fleet.engine.deps import Deps, open_deps
from fleet.engine.holding import Holding
from fleet.engine.slot import Slot
from fleet.errors import StoreUnreachable
from fleet.settings import Settings, summary
from fleet.store.shapes import Wake
from fleet.store.steps import Place
from fleet.telemetry import log_to_stderr

from .board import Board
from .flower import StepEvents
from .heartbeat import Heartbeat
from .nudge import Nudge, nudge
from .program import on_signals, program, take_no_more
from .steps import register

log = logging.getLogger("fleet.worker")
PART = 0.8
"""Of the grace of a stop, what a step has to end by itself."""
LAST = 0.95
"""Of the grace of a stop, when the worker leaves: whoever told it to stop kills it when all of it is over."""
NOW = 1.0
"""Seconds that steps have to heed a second signal."""


def main(settings: Settings, name: str) -> int:
    """Run until a signal: SIGTERM finishes what runs and takes no more. Gives the exit code."""
    log_to_stderr(settings.log_level)
    warnings.filterwarnings("ignore", category=SecurityWarning)  # of root who unpickles, which nobody does here
    if settings.redis_url is None:
        raise StoreUnreachable("no Redis is named: start a fleet with `fleet up`, or set FLEET_REDIS_URL")
    app = make_app(settings.redis_url.get_secret_value(), settings.namespace, settings.lanes.split(","))
    deps = open_deps(settings, service="fleet-worker")
    recover.ensure_epoch(deps)
    return WorkerProcess(app, deps, name).run()


class WorkerProcess:
    """Ties the consumer, the slots and the heartbeat together."""

    def __init__(self, app: Celery, deps: Deps, name: str) -> None:
        settings = deps.settings
        self._app = app
        self._deps = deps
        self._node = names.node_name(name, socket.gethostname())
        board = Board.make(settings.slots)
        self._holding = Holding(board)
        self._asked = 0
        self._events = StepEvents()
        self._place = Place(WorkerId(f"{self._node}.{os.getpid()}"), settings.lanes, settings.lease)
        self._slot = Slot(deps, self._holding, self._place, self._events)
        self._heartbeat = Heartbeat(deps, self._holding, self._place, settings.slots, self._begin_to_stop, board=board)
        app.steps["worker"].add(Nudge)
        register(app, self._carry)

    def run(self) -> int:
        settings = self._deps.settings
        worker = program(
            self._app,
            hostname=self._node,
            pool="threads",
            concurrency=settings.slots,
            queues=[queue.name for queue in self._app.conf.task_queues],
            without_gossip=True,
            without_mingle=True,
            task_events=True,
            optimization="fair",
        )
        signals.worker_ready.connect(self._on_ready, weak=False)
        on_signals(self._on_signal)
        try:
            worker.start()
        finally:
            self._holding.stopping.set()
            self._heartbeat.stop()
            self._events.stop()
            self._deps.close()
        code = int(worker.exitcode or 0)
        if code == 0:  # else the last line says why, and is what people are shown
            log.info("worker %s has stopped", self._node)
        return code

    def _carry(self, wake: Wake) -> int:
        try:
            return self._slot.carry(wake)
        finally:
            nudge()

    def _on_ready(self, sender: Any = None, **_: Any) -> None:
        settings = self._deps.settings
        about = (self._node, settings.slots, settings.lanes, summary(settings))
        log.info("worker %s is up: %d slots, lanes %s, %s", *about)
        self._events.start(sender)
        self._heartbeat.start()

    def _on_signal(self, _number: int) -> None:
        """The first lets steps end, the second hands them back now, the third leaves. A handler must not log itself."""
        self._asked += 1
        acts = {1: self._begin_to_stop, 2: self._stop_now}
        threading.Thread(target=acts.get(self._asked, self._leave), daemon=True).start()

    def _begin_to_stop(self) -> None:
        """What runs has most of the grace to end, and is handed back then. What does not stop is left behind."""
        if self._holding.stopping.is_set():
            return
        self._holding.stopping.set()
        take_no_more()
        nudge()
        grace, held = self._deps.settings.grace, len(self._holding.held())
        log.info("worker %s stops" + (f", {held} running: {grace:g} s to end" if held else ""), self._node)
        _later(grace * PART, self._holding.hand_back)
        _later(grace * LAST, self._leave)

    def _stop_now(self) -> None:
        self._holding.hand_back()
        _later(NOW, self._leave)

    def _leave(self) -> None:
        """Steps that do not heed a stop are ready for others at once, and are no losses: they took nobody down."""
        left = self._holding.attempts()
        log.error("%d steps do not stop: the worker hands them back, and leaves", len(left))
        self._heartbeat.stop()
        with suppress(StoreUnreachable):
            for attempt in left:
                self._deps.live.steps.park(attempt, 0.0, "STOPPING", self._place, retry=False, want=False)
        with suppress(StoreUnreachable):
            self._deps.record.close()
        os._exit(1)


def _later(seconds: float, act: Callable[[], object]) -> None:
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
