"""What a scenario runs on: a fleet of real processes whose Redis is reached by a link that can be harmed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.client import Fleet
from fleet.embedded.child import Backoff
from fleet.embedded.fleet import EmbeddedFleet
from fleet.llm.turns import write_turns
from fleet.store.sql.record import Record
from tests.chaos.load import EFFECTS, turns
from tests.fleets import settings_for
from tests.proxies import Proxy
from tests.servers import RedisProcess, redis_binary


@dataclass(frozen=True, kw_only=True)
class Rig:
    """The size and the times of a fleet (seconds). back: before a dead process is started again."""

    workers: int = 2
    slots: int = 8
    lease: float = 2.0
    heartbeat: float = 0.5
    sweep: float = 0.1
    back: float = 0.05


@dataclass(kw_only=True)
class Rigged:
    """A rig that runs. redis: the server that the link leads to at the moment."""

    rig: Rig
    fleet: EmbeddedFleet
    client: Fleet
    record: Record
    redis: RedisProcess
    link: Proxy
    folder: Path
    points: Path
    effects: Path


@contextmanager
def rigged(rig: Rig, folder: Path, database_url: str | None = None) -> Iterator[Rigged]:
    """A fleet that serves, with servers of its own. database_url: its record (None: SQLite in the folder)."""
    points, effects, script = folder / "points", folder / "effects", folder / "turns.jsonl"
    points.mkdir()
    write_turns(script, turns(effects))
    (folder / "redis").mkdir()
    redis = RedisProcess(redis_binary("redis"), folder / "redis")
    with Proxy(("127.0.0.1", redis.port)) as link:
        settings = settings_for(
            folder / "fleet",
            f"redis://127.0.0.1:{link.port}/0",
            database_url,
            workers=rig.workers,
            slots=rig.slots,
            lease=rig.lease,
            heartbeat=rig.heartbeat,
            sweep=rig.sweep,
            tools=str(EFFECTS),
            builtins=False,
            model_script=script,
            crash_at=points,
        )
        with EmbeddedFleet(settings, backoff=Backoff(base=rig.back, cap=rig.back)) as fleet:
            fleet.wait_ready()
            with Fleet.connect(fleet.settings) as client:
                record = Record.open(fleet.settings.record_url)
                made = Rigged(
                    rig=rig,
                    fleet=fleet,
                    client=client,
                    record=record,
                    redis=redis,
                    link=link,
                    folder=folder,
                    points=points,
                    effects=effects,
                )
                try:
                    yield made
                finally:
                    record.close()
    made.redis.stop()
