"""What tests share: a real Redis for the session, and a live state of its own for each test."""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from fleet.store.live import Live
from tests.servers import RedisProcess, redis_binary

_numbers = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--server", choices=["redis", "embedded"], default="redis", help="which live state to test on")
    parser.addoption("--record", choices=["sqlite", "postgres"], default="sqlite", help="which record to test on")


@pytest.fixture(scope="session")
def redis_server(request: pytest.FixtureRequest) -> Iterator[RedisProcess]:
    with tempfile.TemporaryDirectory() as folder:
        server = RedisProcess(redis_binary(request.config.getoption("--server")), Path(folder))
        yield server
        server.stop()


@pytest.fixture(scope="session")
def new_record(request: pytest.FixtureRequest) -> Iterator[Callable[[], str | None]]:
    """Gives the URL of a new record; None is SQLite in the fleet's folder."""
    if request.config.getoption("--record") == "sqlite":
        yield lambda: None
        return
    from tests.store.sql.pgcluster import Cluster

    cluster = Cluster()
    cluster.start()
    yield cluster.new_schema
    cluster.remove()


@pytest.fixture
def live(redis_server: RedisProcess) -> Iterator[Live]:
    """A live state of its own, with epoch 1. Afterwards no key of an ended run is left without a lifetime."""
    live = Live.connect(redis_server.url, f"t{next(_numbers)}")
    live.set_epoch(1)
    yield live
    prefix = f"{live.keys.namespace}:"
    keys = list(live.client.scan_iter(f"{prefix}*", count=1000))
    live.close()
    stray = redis.Redis.from_url(redis_server.url)
    if keys:
        stray.delete(*keys)
    stray.close()
