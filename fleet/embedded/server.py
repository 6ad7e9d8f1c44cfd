"""The Redis of an embedded fleet: the one that FLEET_REDIS_URL names, else one of its own."""

import errno
import socket
import time
from pathlib import Path

from fleet.embedded.binaries import Binary, find_binary, wheel_binary
from fleet.embedded.child import ChildSpec, last_line
from fleet.embedded.folder import kept_secret, write_private
from fleet.embedded.supervisor import Supervisor
from fleet.errors import PortTaken, StoreUnreachable
from fleet.settings import mask
from fleet.store.probe import probe

__all__ = ["HOST", "RedisServer", "free_port", "wheel_binary"]

NAME = "redis"
SECRET_FILE = "redis.password"  # noqa: S105 - the name of a file
HOST = "127.0.0.1"
PORTS_TRIED = 5

_CONFIG = """\
bind {host}
port {port}
protected-mode yes
requirepass {password}
dir .
appendonly yes
latency-tracking no
appendfsync everysec
save ""
maxmemory-policy noeviction
daemonize no
"""


class RedisServer:
    """A server that answers. url: with its password. owned: whether stop() ends it. kind: program and version.

    warning: what an operator has to know of it, or empty. supervisor: keeps an owned server alive.
    """

    def __init__(self, url: str, kind: str, warning: str = "", supervisor: Supervisor | None = None) -> None:
        self.url = url
        self.kind = kind
        self.warning = warning
        self.supervisor = supervisor

    @property
    def owned(self) -> bool:
        return self.supervisor is not None

    @property
    def address(self) -> str:
        """Where it is, without its password: host:port of an owned server, else the masked URL."""
        return self.url.partition("@")[2].removesuffix("/0") if self.owned else mask(self.url)

    @classmethod
    def start(
        cls, folder: Path, url: str | None = None, *, search_path: str | None = None, timeout: float = 30.0
    ) -> "RedisServer":
        """The server at `url`, checked; without one, a new one on 127.0.0.1 that keeps its data in `folder`.

        search_path: where to look for a program, like PATH. timeout: seconds for a new one to load its data.
        Raises StoreUnreachable.
        """
        if url:
            facts = probe(url)
            return cls(url, facts.kind, facts.warning)
        binary = find_binary(search_path)
        folder = folder.absolute()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        password = kept_secret(folder / SECRET_FILE)
        for _ in range(PORTS_TRIED):
            server = _try_port(folder, binary, password, time.monotonic() + timeout)
            if server is not None:
                return server
        raise StoreUnreachable(f"{binary.kind} does not start: {_last_words(folder)}; see {folder / 'redis.log'}")

    def stop(self, grace: float = 10.0) -> None:
        """Ends an owned server: SIGTERM, and SIGKILL after `grace` seconds. Leaves any other alone."""
        if self.supervisor is not None:
            self.supervisor.stop(grace)


def _try_port(folder: Path, binary: Binary, password: str, until: float) -> RedisServer | None:
    """A server on a port that was free a moment ago, or None where it died at once (somebody took the port)."""
    port = free_port()
    supervisor = Supervisor()
    supervisor.keep(_spec(folder, binary, password, port))
    url = f"redis://:{password}@{HOST}:{port}/0"
    while time.monotonic() < until and supervisor.restarts(NAME) == 0:
        try:
            facts = probe(url, timeout=1.0)
        except StoreUnreachable:
            time.sleep(0.02)
            continue
        return RedisServer(url, binary.kind, facts.warning, supervisor)
    supervisor.stop(grace=2.0)
    return None


def _spec(folder: Path, binary: Binary, password: str, port: int) -> ChildSpec:
    """The configuration goes by a private file, since everybody may read a command line."""
    config = folder / "redis.conf"
    write_private(config, _CONFIG.format(host=HOST, port=port, password=password))
    return ChildSpec(
        name=NAME,
        argv=(str(binary.path), str(config)),
        env={"LC_ALL": "C"},
        cwd=folder,
        log=folder / "redis.log",
    )


def free_port() -> int:
    """A TCP port of 127.0.0.1 that the system finds free now."""
    with socket.socket() as probe_socket:
        probe_socket.bind((HOST, 0))
        return int(probe_socket.getsockname()[1])


def refuse_taken(port: int, variable: str) -> None:
    """Raises PortTaken where somebody listens on that port of 127.0.0.1, or it may not be listened on. 0: any will do.

    variable: the setting that names the port.
    """
    if not port:
        return
    with socket.socket() as probe_socket:
        probe_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: who has just left, has left
        try:
            probe_socket.bind((HOST, port))
        except OSError as refused:
            why = "is taken" if refused.errno == errno.EADDRINUSE else f"can't be used ({refused.strerror})"
            raise PortTaken(f"port {port} {why}: choose another with {variable}, or 0 for a free one") from None


def _last_words(folder: Path) -> str:
    return last_line(folder / "redis.log") or "it says nothing"
