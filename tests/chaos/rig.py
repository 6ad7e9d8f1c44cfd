"""What a scenario runs on: a fleet of real processes whose Redis is reached by a link that can be harmed."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.client import Fleet
from fleet.embedded.child import Backoff
from fleet.embedded.fleet import EmbeddedFleet
from fleet.llm.turns import write_turns
from fleet.settings import Settings
from fleet.store.sql.record import Record
from tests.chaos.load import EFFECTS, turns
from tests.fleets import settings_for
from tests.proxies import Proxy
from tests.servers import RedisProcess, redis_binary
from tests.store.sql.pgcluster import Cluster


@dataclass(frozen=True, kw_only=True)
class Rig:
    """The size and the times of a fleet (seconds). back: before a dead process is started again.

    own_sql: its record is in a PostgreSQL server of its own. disk: megabytes of each of two small disks, one under
    Redis and one under the fleet's folder with a record in SQLite (0: none; needs root).
    """

    workers: int = 2
    slots: int = 8
    lease: float = 2.0
    heartbeat: float = 0.5
    sweep: float = 0.1
    back: float = 0.05
    retention: float = 3600.0
    own_sql: bool = False
    disk: int = 0


@dataclass(kw_only=True)
class Rigged:
    """A rig that runs. redis: the server that the link leads to at the moment. sql: its own PostgreSQL, or None."""

    rig: Rig
    fleet: EmbeddedFleet
    client: Fleet
    record: Record
    redis: RedisProcess
    link: Proxy
    folder: Path
    points: Path
    effects: Path
    sql: Cluster | None = None


@contextmanager
def rigged(rig: Rig, folder: Path, database_url: str | None = None) -> Iterator[Rigged]:
    """A fleet that serves, with servers of its own. database_url: its record (None: SQLite in the folder)."""
    points, effects, script = folder / "points", folder / "effects", folder / "turns.jsonl"
    points.mkdir()
    write_turns(script, turns(effects))
    with ExitStack() as stack:
        for name in ("redis", "fleet"):
            (folder / name).mkdir()
            if rig.disk:
                stack.enter_context(small_disk(folder / name, rig.disk))
        sql = stack.enter_context(_cluster()) if rig.own_sql else None
        redis = RedisProcess(redis_binary("redis"), folder / "redis")
        link = stack.enter_context(Proxy(("127.0.0.1", redis.port)))
        url = sql.new_schema() if sql else None if rig.disk else database_url
        settings = _settings(rig, folder, link, url).model_copy(update={"model_script": script, "crash_at": points})
        fleet = stack.enter_context(EmbeddedFleet(settings, backoff=Backoff(base=rig.back, cap=rig.back)))
        fleet.wait_ready()
        client = stack.enter_context(Fleet.connect(fleet.settings))
        record = stack.enter_context(closing(Record.open(fleet.settings.record_url)))
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
            sql=sql,
        )
        stack.callback(_end_redis, made)
        yield made


def _settings(rig: Rig, folder: Path, link: Proxy, database_url: str | None) -> Settings:
    return settings_for(
        folder / "fleet",
        f"redis://127.0.0.1:{link.port}/0",
        database_url,
        workers=rig.workers,
        slots=rig.slots,
        lease=rig.lease,
        heartbeat=rig.heartbeat,
        sweep=rig.sweep,
        retention=rig.retention,
        tools=str(EFFECTS),
        builtins=False,
    )


def _end_redis(made: Rigged) -> None:
    made.redis.stop()  # the one that is there now


@contextmanager
def _cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.remove()


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """A file system of its own in memory."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
