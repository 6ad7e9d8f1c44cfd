"""What simulations share: a throw-away Redis server and a database in memory."""

import itertools
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from pydantic import SecretStr

from fleet.embedded.binaries import find_binary
from fleet.errors import StoreUnreachable
from fleet.settings import Settings
from fleet.store.simulated import SimulatedRedis, Wire
from fleet.store.sql.inline import Memory

STARTS = 10.0
"""Seconds that the server may take to start."""


class Bench:
    """Starts when it is entered, on a Unix socket in a folder of its own; both are gone when it is left."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fleet-")
        self._numbers = itertools.count()
        self._server: subprocess.Popen[bytes] | None = None
        self.memory = Memory()
        self.path = Path(self._folder.name)
        self.settings = Settings(
            data=self.path, redis_url=SecretStr("redis://simulated"), builtins=False, tools="", lease=15.0, slots=2
        )

    def __enter__(self) -> "Bench":
        """Raises StoreUnreachable where no server program is found, or it does not start."""
        options = ["--port", "0", "--unixsocket", str(self._socket), "--save", "", "--appendonly", "no"]
        self._server = subprocess.Popen(  # noqa: S603 - the program that `fleet up` starts
            [str(find_binary().path), *options, "--dir", str(self.path)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + STARTS
        while not self._socket.exists():
            if self._server.poll() is not None or time.monotonic() > until:
                raise StoreUnreachable("the Redis server of the simulation does not start")
            time.sleep(0.005)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        self.memory.close()
        self._folder.cleanup()

    def redis(self, wire: Wire) -> SimulatedRedis:
        """A namespace that nobody had before."""
        return SimulatedRedis(str(self._socket), f"sim{next(self._numbers)}", wire)

    @property
    def _socket(self) -> Path:
        return self.path / "redis.sock"
