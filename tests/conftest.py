"""Servers that tests share: real ones, on ports the system chooses, ended by their handle."""

import itertools
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from fleet.store.live import Live

_numbers = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--server", choices=["redis", "embedded"], default="redis", help="which live state to test on")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _binary(kind: str) -> str:
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if kind == "redis" and found:
        return found
    from fleet.embedded.server import wheel_binary

    return str(wheel_binary())


class RedisProcess:
    """A private server with AOF everysec, in a folder of its own."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.binary = binary
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        options += ["--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"]
        self.process = subprocess.Popen([self.binary, *options], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        client = redis.Redis.from_url(self.url)
        for _ in range(200):
            try:
                client.ping()
                break
            except redis.exceptions.RedisError:
                time.sleep(0.02)
        client.close()

    def stop(self, *, kill: bool = False) -> None:
        (self.process.kill if kill else self.process.terminate)()
        self.process.wait(10)


@pytest.fixture(scope="session")
def redis_server(request: pytest.FixtureRequest) -> Iterator[RedisProcess]:
    with tempfile.TemporaryDirectory() as folder:
        server = RedisProcess(_binary(request.config.getoption("--server")), Path(folder))
        yield server
        server.stop()


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
