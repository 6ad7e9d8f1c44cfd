"""Real fleets for tests: supervised worker processes and a scheduler, on a namespace, record and folder apart."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from fleet.client import Fleet
from fleet.embedded.child import Backoff
from fleet.embedded.fleet import EmbeddedFleet
from fleet.settings import Settings

TOOLS = Path(__file__).parent / "tools.py"
_numbers = itertools.count()


def settings_for(folder: Path, redis_url: str, database_url: str | None = None, **more: Any) -> Settings:
    base: dict[str, Any] = {
        "data": folder,
        "redis_url": SecretStr(redis_url),
        "database_url": SecretStr(database_url) if database_url else None,
        "namespace": f"f{next(_numbers)}",
        "tools": f"fleet.tools.builtin.testing_aids,{TOOLS}",
        "slots": 8,
        "lease": 2.0,
        "heartbeat": 0.5,
        "sweep": 0.1,
        "flower": False,
        "grace": 10.0,
    }
    return Settings(**(base | more))


@contextmanager
def running(settings: Settings) -> Iterator[tuple[EmbeddedFleet, Fleet]]:
    """A fleet that serves, and a client of it."""
    with EmbeddedFleet(settings, backoff=Backoff(base=0.05, cap=0.2)) as fleet:
        fleet.wait_ready()
        with Fleet.connect(fleet.settings) as client:
            yield fleet, client
