"""What a use case is given: the stores, the tools, the models, and the ways to wait."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from ulid import ULID

from fleet.engine.crash import CrashPoints
from fleet.engine.portal import PATIENCE, Portal
from fleet.errors import StoreUnreachable
from fleet.llm.select import Models, models_from
from fleet.settings import Settings
from fleet.store.artifacts import Artifacts
from fleet.store.live import Live
from fleet.store.sql.goals import GoalRecord
from fleet.store.sql.record import Record
from fleet.telemetry import Telemetry
from fleet.tools.registry import Registry

GOALS_KEPT = 4096
log = logging.getLogger("fleet.deps")


@dataclass(kw_only=True, slots=True)
class Deps:
    """One a process. clock: seconds since 1970. chance: uniform in [0, 1).

    sleep: waits so many seconds for a store that is away. ulid: gives a new id. simulated: this is a part of a
    simulation (fleet.testing), whose clock may be ahead of Redis's.
    """

    settings: Settings
    live: Live
    record: Record
    registry: Registry
    models: Models
    artifacts: Artifacts
    telemetry: Telemetry
    portal: Portal = field(default_factory=Portal)
    crash: CrashPoints = field(default_factory=lambda: CrashPoints(None))
    clock: Callable[[], float] = time.time
    chance: Callable[[], float] = random.random
    sleep: Callable[[float], None] = time.sleep
    ulid: Callable[[], ULID] = ULID
    simulated: bool = False
    goal_of: Callable[[str], GoalRecord] = field(init=False)

    def __post_init__(self) -> None:
        self.goal_of = lru_cache(GOALS_KEPT)(self.record.goals.of_run)
        """The goal of a run as it was submitted; its status is that of the first look."""

    def close(self) -> None:
        if self.portal.started:
            try:
                self.portal.start(self.models.aclose()).result(PATIENCE)
            except Exception as stuck:
                log.warning("models were not closed: %s", stuck or type(stuck).__name__)
        self.portal.close()
        self.telemetry.close()
        self.record.close()
        self.live.close()


def open_deps(settings: Settings, *, service: str = "fleet") -> Deps:
    """Everything a process of the fleet needs, connected at first use. Raises BadSetting, StoreUnreachable."""
    if settings.redis_url is None:
        raise StoreUnreachable("no Redis is named: start a fleet with `fleet up`, or set FLEET_REDIS_URL")
    telemetry = Telemetry.configured(settings.telemetry, service)
    return Deps(
        settings=settings,
        live=Live.connect(settings.redis_url.get_secret_value(), settings.namespace),
        record=Record.open(settings.record_url),
        registry=Registry.configured(settings),
        models=models_from(settings),
        artifacts=Artifacts(settings.data.absolute() / "artifacts"),
        telemetry=telemetry,
        crash=CrashPoints(settings.crash_at),
    )
