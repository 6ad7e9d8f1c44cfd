"""The scheduler process: sweeps, rebuilds what has no live state. Several may be alive; one leads."""

import logging
import os
import signal
import socket
import threading
import time
import uuid
from typing import Any

from fleet.app import make_app
from fleet.engine import recover
from fleet.engine.deps import Deps, open_deps
from fleet.engine.lanes import LaneWatch
from fleet.engine.sweep import Told, close_abandoned, nobody, sweep
from fleet.errors import ClockSimulated, StoreUnreachable
from fleet.settings import Settings, summary
from fleet.telemetry import log_to_stderr

from .flower import Losses

log = logging.getLogger("fleet.scheduler")
LEAD = 3.0
"""Seconds that a leader leads without saying so again."""
REBUILD_EVERY = 5.0
BEAT_EVERY = 1.0
SILENCE = 3.0
"""Seconds that Redis may take to answer before its leases are doubted."""


def main(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT."""
    log_to_stderr(settings.log_level)
    if settings.redis_url is None:
        raise StoreUnreachable("no Redis is named: start a fleet with `fleet up`, or set FLEET_REDIS_URL")
    app = make_app(settings.redis_url.get_secret_value(), settings.namespace, settings.lanes.split(","))
    deps = open_deps(settings, service="fleet-scheduler")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    log.info("scheduler is up: %s", summary(settings))
    try:
        Scheduler(deps, Losses(app, settings.lease)).run(stop)
    finally:
        deps.close()
    log.info("scheduler has stopped")
    return 0


class Scheduler:
    """Sweeps while it leads. Every action is idempotent, so that two leaders for a moment do no harm."""

    def __init__(self, deps: Deps, told: Told = nobody) -> None:
        """told: hears of attempts that were taken back."""
        self._deps = deps
        self._told = told
        self._me = f"{socket.gethostname()}.{os.getpid()}.{uuid.uuid4().hex[:8]}"  # a host's containers share names
        self._rebuilt = self._quiet_until = self._beaten = float("-inf")
        self._epoch: int | None = None
        self._lanes = LaneWatch(deps)

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(self._deps.settings.sweep):
            try:
                if self._led():
                    self.tick()
            except ClockSimulated:
                raise
            except StoreUnreachable as away:
                log.warning("not swept: %s", away)
                self._be_quiet()
            except Exception:
                log.exception("a sweep failed")

    def _led(self) -> bool:
        asked = time.monotonic()
        leads = self.leads()
        if time.monotonic() - asked > SILENCE:
            self._be_quiet()
        return leads

    def _be_quiet(self) -> None:
        """Workers could not renew either: for one lease nothing is reaped."""
        self._quiet_until = time.monotonic() + self._deps.settings.lease

    def _beat(self) -> bool:
        """Whether a new epoch was opened: Redis is empty, or older than the record says."""
        if time.monotonic() - self._beaten < BEAT_EVERY:
            return recover.ensure_epoch(self._deps)
        self._beaten = time.monotonic()
        return recover.beat(self._deps)

    def _tell_ends(self) -> None:
        """Once in each epoch, whoever opened it: it reads through the runs that have ended."""
        epoch = self._deps.live.epoch()
        if epoch != self._epoch:
            recover.tell_ends(self._deps)
        self._epoch = epoch

    def leads(self) -> bool:
        """Whether this scheduler leads now; a leader says so again, and a dead one is followed within seconds."""
        return self._deps.live.lead(self._me, LEAD)

    def tick(self) -> Any:
        """One sweep, and now and then a look for runs that have no live state."""
        opened = self._beat()
        if opened or time.monotonic() - self._rebuilt > REBUILD_EVERY:
            self._rebuilt = time.monotonic()
            recover.rebuild_missing(self._deps, young=opened)
            recover.go_on(self._deps)
            self._tell_ends()
            close_abandoned(self._deps)
        swept = sweep(self._deps, reap=time.monotonic() > self._quiet_until, told=self._told)
        self._lanes.look()
        return swept
