"""Workers beside those of a rig: by another link, with another clock, or of another release."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

from pydantic import SecretStr

from fleet.core.events import EventType
from tests.chaos.stage import Stage, until
from tests.processes import process


class Extra(NamedTuple):
    """database_url: where it finds the record. environment: its own variables. code: the folder whose code it runs."""

    name: str
    database_url: str = ""
    environment: Mapping[str, str] = {}
    code: Path | None = None
    slots: int = 8


@contextmanager
def another_worker(stage: Stage, extra: Extra) -> Iterator["Popen[bytes]"]:
    """Serves when the block begins; told to stop when it ends."""
    settings = stage.fleet.settings.model_copy(update={"slots": extra.slots})
    if extra.database_url:
        settings = settings.model_copy(update={"database_url": SecretStr(extra.database_url)})
    log = settings.data / "logs" / f"{extra.name}.log"
    with process(
        settings, "worker", "--name", extra.name, log=log, environment=extra.environment, cwd=extra.code
    ) as started:
        until(lambda: _serves(stage, started), f"worker {extra.name} to serve", 60.0)
        yield started


def _serves(stage: Stage, started: "Popen[bytes]") -> bool:
    assert started.poll() is None, "the worker has ended"
    return any(worker.name.endswith(f".{started.pid}") for worker in stage.live.workers())


def steps_by(stage: Stage, name: str) -> int:
    """How many steps of this scenario a worker has started, so far as its runs' live or filed events tell."""
    total = 0
    for each in stage.goals:
        run = each.handle.run_id
        events = stage.live.streams.read(run) or stage.record.events.read(run)  # type: ignore[arg-type]
        started = [event for event in events if event.type is EventType.STEP_STARTED]
        total += sum(str(event.data["worker"]).startswith(f"{name}@") for event in started)
    return total
