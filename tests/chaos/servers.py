"""Scenarios in which Redis dies, forgets, or comes back older than it was."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from tests.chaos.load import chain, planned
from tests.chaos.scenario import Scenario, Size
from tests.chaos.stage import Stage, until
from tests.proxies import Proxy
from tests.servers import RedisProcess

AOF = "appendonlydir"
RUNNING_AGAIN = 15.0
"""Seconds after which all goals run again when Redis lost everything."""


def redis_killed(stage: Stage, size: Size) -> None:
    """kill -9, and a restart on the same folder, which has all but the last second on disk."""
    with stage.under_load(size.goals), _reconnects(stage):
        for _ in range(size.rounds):
            stage.pause(size.seconds)
            stage.rigged.redis.stop(kill=True)
            stage.mark("Redis killed")
            stage.rigged.redis.start()
            stage.all_serve()
    stage.settled()


@contextmanager
def _reconnects(stage: Stage) -> Iterator[None]:
    """Counts connections to Redis that are made anew."""
    before = stage.rigged.link.accepted
    yield
    stage.faults["reconnects"] += stage.rigged.link.accepted - before


@contextmanager
def _raises_epoch(stage: Stage) -> Iterator[None]:
    """Waits until the loss in the block was noticed."""
    before = stage.record.epochs.current()
    yield
    until(lambda: stage.record.epochs.current() > before, "a new epoch")
    stage.faults["epochs raised"] += stage.record.epochs.current() - before


def flushed(stage: Stage, size: Size) -> None:
    """FLUSHALL while many goals are in the middle."""
    loads = [planned(chain(3, 100, "rest"), stage.rigged.effects, f"flushed {n}") for n in range(size.goals)]
    goals = stage.submit(loads)
    until(lambda: stage.begun(goals) >= min(size.goals, 20), "goals to be in the middle")
    with _raises_epoch(stage), stage.server() as client:
        client.flushall()
        stage.mark("FLUSHALL")
    stage.settled()


def restored(stage: Stage, size: Size) -> None:
    """Redis ends, and comes back with a copy of its folder that is `seconds` old."""
    for _ in range(size.rounds):
        with stage.under_load(size.goals):
            stage.pause(1.0)
            copy = _copied(stage)
            stage.pause(size.seconds)
            with _raises_epoch(stage), _reconnects(stage):
                _swap(stage, copy)
                stage.all_serve()
        stage.settled()


def _copied(stage: Stage) -> Path:
    """A copy of the append-only file as it stands, which a server may write at the same time."""
    copy = stage.rigged.folder / f"aof-{time.monotonic_ns()}"
    shutil.copytree(stage.rigged.redis.folder / AOF, copy)
    return copy


def _swap(stage: Stage, copy: Path) -> None:
    server = stage.rigged.redis
    server.stop(kill=True)
    stage.mark("Redis restored")
    shutil.rmtree(server.folder / AOF)
    shutil.move(copy, server.folder / AOF)
    server.start()


def failed_over(stage: Stage, size: Size) -> None:
    """The primary dies, and a replica that lags `seconds` behind takes its place."""
    for _ in range(size.rounds):
        folder = stage.rigged.folder / f"replica-{time.monotonic_ns()}"
        folder.mkdir()
        primary, replica = stage.rigged.redis, RedisProcess(stage.rigged.redis.binary, folder)
        with stage.under_load(size.goals), Proxy(("127.0.0.1", primary.port)) as between:
            _follow(replica, between.port)
            stage.pause(1.0)
            between.hold()
            stage.pause(size.seconds)
            with _raises_epoch(stage), _reconnects(stage):
                primary.stop(kill=True)
                stage.mark("failover")
                _promote(replica)
                stage.rigged.redis = replica
                stage.rigged.link.point(("127.0.0.1", replica.port))
                stage.all_serve()
        stage.settled()


def _follow(replica: RedisProcess, port: int) -> None:
    with redis.Redis.from_url(replica.url, decode_responses=True) as client:
        client.replicaof("127.0.0.1", port)
        until(lambda: client.info("replication")["master_link_status"] == "up", "the replica to follow")


def _promote(replica: RedisProcess) -> None:
    with redis.Redis.from_url(replica.url) as client:
        client.replicaof("NO", "ONE")


SERVERS = (
    Scenario(
        number=8,
        name="Redis kill -9, AOF everysec, restarted",
        play=redis_killed,
        fired=("Redis killed", "reconnects"),
        recovery="progress",
        within=10.0,
        short=Size(goals=4, rounds=1, seconds=1),
        long=Size(goals=24, rounds=5, seconds=6),
    ),
    Scenario(
        number=9,
        name="FLUSHALL with many live goals",
        play=flushed,
        fired=("FLUSHALL", "rebuilt", "epochs raised"),
        recovery="rebuilt",
        within=RUNNING_AGAIN,
        short=Size(goals=40),
        long=Size(goals=500),
    ),
    Scenario(
        number=10,
        name="Redis restored from an old AOF",
        play=restored,
        fired=("Redis restored", "rebuilt", "epochs raised", "reconnects"),
        recovery="rebuilt",
        within=RUNNING_AGAIN,
        short=Size(goals=3, seconds=2),
        long=Size(goals=24, rounds=2, seconds=30),
    ),
    Scenario(
        number=11,
        name="failover to a lagging replica",
        play=failed_over,
        fired=("failover", "rebuilt", "epochs raised", "reconnects"),
        recovery="rebuilt",
        within=RUNNING_AGAIN,
        short=Size(goals=3, seconds=2),
        long=Size(goals=24, rounds=3, seconds=10),
    ),
)
