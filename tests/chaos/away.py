"""Scenarios in which a part is away, or can't be reached: Redis, its connections, the record, their disks."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import pytest

from fleet.errors import UNTIL_SEEN_TO, StoreUnreachable
from tests.chaos.extra import Extra, another_worker, steps_by
from tests.chaos.rig import Rig
from tests.chaos.scenario import Scenario, Size
from tests.chaos.stage import Stage, until
from tests.proxies import Proxy
from tests.store.sql.pgcluster import Cluster

BACK = 20.0
"""Seconds in which work goes on once a part is back: a client that waits for an answer gives up after 10."""
PATIENT = Rig(lease=15.0, heartbeat=3.0, sweep=0.5)


def goals_while_redis_is_away(stage: Stage, size: Size) -> None:
    """A goal every half second, each accepted by the record alone; one key that is handed in twice is one goal."""
    stage.some(size.goals)
    stage.rigged.redis.stop()
    load = stage.loads.next()
    keyed = load._replace(goal=load.goal.model_copy(update={"key": f"key {time.time()}"}))
    (first,) = stage.submit([keyed])
    for _ in range(round(size.seconds * 2)):
        (accepted,) = stage.some(1)
        assert not accepted.handle.launched
        stage.faults["goals accepted without Redis"] += 1
        again = stage.client.submit(keyed.goal, plan=keyed.plan)
        stage.faults["goals doubled"] += again.new or again.goal_id != first.handle.goal_id
        stage.pause(0.5)
    stage.mark("Redis away")
    stage.rigged.redis.start()
    stage.settled()


def redis_stands_still(stage: Stage, size: Size) -> None:
    """By its own command, then by a signal; no worker leaves, and none loses a lease."""
    pids = stage.fleet.pids()
    with stage.under_load(size.goals):
        for _ in range(size.rounds):
            with stage.server() as admin:
                admin.client_pause(round(size.seconds * 1000))
            stage.pause(size.seconds)
            stage.mark("CLIENT PAUSE")
            stage.pause(2.0)
            stage.rigged.redis.process.send_signal(SIGSTOP)
            stage.pause(size.seconds * 1.5)
            stage.rigged.redis.process.send_signal(SIGCONT)
            stage.mark("Redis frozen")
            stage.pause(2.0)
    stage.settled()
    stage.faults["processes gone"] += sum(stage.fleet.pids().get(name) != pid for name, pid in pids.items())


def half_open(stage: Stage, size: Size) -> None:
    """The server's ends are closed, and nobody told the clients, some of which wait for an answer."""
    for _ in range(size.rounds):
        with stage.under_load(size.goals):
            stage.pause(1.0)
            open_before = stage.rigged.link.open
            stage.rigged.link.lose()
            stage.pause(size.seconds)
            stage.rigged.link.mend()
            stage.mark("half-open connections", open_before)
            stage.all_serve()
            stage.pause(2.0)
        stage.settled()


def cut_from_sql(stage: Stage, size: Size) -> None:
    """One worker of three has Redis and no record: what it runs waits for it, what ended is not run again."""
    with _sql_by_link(stage) as (link, url), another_worker(stage, Extra("cut", database_url=url)), _load(stage, size):
        until(lambda: steps_by(stage, "cut") > 0, "the worker to run something")
        for _ in range(size.rounds):
            link.cut()
            stage.pause(size.seconds)
            before = link.accepted
            link.mend()
            stage.mark("worker cut from SQL")
            until(lambda before=before: link.accepted > before, "the worker to find the record again")  # type: ignore[misc]
            stage.pause(2.0)
    stage.settled()


@contextmanager
def _load(stage: Stage, size: Size) -> Iterator[None]:
    with stage.under_load(size.goals):
        yield


@contextmanager
def _sql_by_link(stage: Stage) -> Iterator[tuple[Proxy, str]]:
    """A link to the record of its own, and the URL that goes by it."""
    url = stage.fleet.settings.record_url
    folder = url.partition("?host=")[2].partition("&")[0]
    with Proxy(Path(folder) / ".s.PGSQL.5432") as link:
        yield link, url.replace("@/", f"@127.0.0.1:{link.port}/").replace(f"?host={folder}&", "?")


def _cluster(stage: Stage) -> Cluster:
    assert stage.rigged.sql is not None
    return stage.rigged.sql


def sql_restarted(stage: Stage, size: Size) -> None:
    """It dies at once, as in a crash, again and again."""
    with stage.under_load(size.goals):
        for _ in range(size.rounds):
            stage.pause(size.seconds)
            _cluster(stage).stop()
            stage.pause(1.0)
            _cluster(stage).start()
            stage.mark("PostgreSQL restarted")
    stage.settled()


def disks_full(stage: Stage, size: Size) -> None:
    """First Redis's, whose goals are accepted all the same; then the record's, which takes none."""
    stage.some(size.goals)
    with _full(stage.rigged.redis.folder):
        until(lambda: _refuses_writes(stage), "Redis to notice")
        until(lambda: not stage.some(1)[0].handle.launched, "a goal that can't be started")
        stage.pause(size.seconds)
    stage.mark("Redis's disk full")
    until(lambda: not _refuses_writes(stage), "Redis to take writes again")
    stage.settled()
    stage.some(size.goals)
    with _full(stage.fleet.settings.data):
        stage.pause(size.seconds)
        if size.seconds >= REFUSED_AFTER:
            _refused(stage)
        stage.faults["record's disk full"] += 1
    stage.mark("disk freed")
    stage.settled()


REFUSED_AFTER = 10.0
"""Seconds of a round that is long enough to see a goal refused, which takes the patience of a write."""


def _refused(stage: Stage) -> None:
    with pytest.raises(StoreUnreachable, match="disk is full") as refused:
        stage.client.submit(stage.loads.next().goal)
    assert refused.value.retry_after == UNTIL_SEEN_TO
    stage.faults["goals refused"] += 1


@contextmanager
def _full(folder: Path) -> Iterator[None]:
    """Takes every byte that is left on the disk."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(65_536)):
                pass
        except OSError:
            pass
        size = file.tell()
    assert size > 0
    try:
        yield
    finally:
        os.unlink(filler)


def _refuses_writes(stage: Stage) -> bool:
    with stage.server() as admin:
        admin.set_response_callback("SET", lambda *_, **__: True)
        try:
            admin.set("probe", "x" * 4096, px=1)
        except Exception as refused:
            return "MISCONF" in str(refused)
    return False


AWAY = (
    Scenario(
        number=12,
        name="Redis away while goals come in",
        play=goals_while_redis_is_away,
        fired=("Redis away", "goals accepted without Redis"),
        never=("goals doubled", "takeovers"),
        recovery="progress",
        within=BACK,
        short=Size(goals=4, seconds=4),
        long=Size(goals=16, seconds=60, rig=PATIENT),
    ),
    Scenario(
        number=13,
        name="CLIENT PAUSE, then SIGSTOP of Redis",
        play=redis_stands_still,
        fired=("CLIENT PAUSE", "Redis frozen"),
        never=("takeovers", "processes gone"),
        recovery="progress",
        within=BACK,
        short=Size(goals=4, seconds=2, rig=PATIENT),
        long=Size(goals=16, seconds=8, rig=PATIENT),
    ),
    Scenario(
        number=14,
        name="half-open connections to Redis",
        play=half_open,
        fired=("half-open connections",),
        recovery="progress",
        within=BACK,
        short=Size(goals=4, seconds=2, rig=PATIENT),
        long=Size(goals=16, rounds=3, seconds=10, rig=PATIENT),
    ),
    Scenario(
        number=15,
        name="worker cut from SQL only",
        play=cut_from_sql,
        fired=("worker cut from SQL",),
        recovery="progress",
        within=BACK,
        short=Size(goals=6, seconds=5, rig=Rig(own_sql=True)),
        long=Size(goals=16, rounds=2, seconds=30, rig=Rig(own_sql=True, lease=15.0, heartbeat=3.0, sweep=0.5)),
    ),
    Scenario(
        number=16,
        name="PostgreSQL killed and started again and again",
        play=sql_restarted,
        fired=("PostgreSQL restarted",),
        recovery="progress",
        within=BACK,
        short=Size(goals=6, rounds=2, seconds=3, rig=Rig(own_sql=True)),
        long=Size(goals=16, rounds=8, seconds=5, rig=Rig(own_sql=True, lease=15.0, heartbeat=3.0, sweep=0.5)),
    ),
    Scenario(
        number=18,
        name="disk full, Redis's and the record's",
        play=disks_full,
        fired=("Redis's disk full", "record's disk full"),
        recovery="progress",
        within=BACK,
        short=Size(goals=4, seconds=3, rig=Rig(disk=24)),
        long=Size(goals=16, seconds=20, rig=Rig(disk=24, lease=15.0, heartbeat=3.0, sweep=0.5)),
    ),
)
