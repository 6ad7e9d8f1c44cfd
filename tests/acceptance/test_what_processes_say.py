"""What workers and schedulers say at the default log level: little, and in the fleet's own words."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from signal import SIGINT

from pydantic import SecretStr

from fleet.client import Fleet
from fleet.embedded.fleet import EmbeddedFleet
from fleet.settings import Settings, child_environment, summary
from tests.acceptance.conftest import Planned, run_plan, until


def records(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_workers_say_that_they_are_up_and_nothing_of_each_message(
    shared: tuple[EmbeddedFleet, Fleet], planned: Planned
) -> None:
    fleet, client = shared
    run_plan(client, planned, "goal: quiet\nsteps:\n  a: {tool: noop, args: {value: 1}}")
    logs = fleet.settings.data / "logs"
    for name in ("w1", "w2"):
        told = records(logs / f"{name}.log")
        (up,) = (each["message"] for each in told if "is up" in each["message"])
        assert re.match(rf"worker {name}@\S+ is up: 8 slots, lanes main, Redis 127\.\S+, record \S+$", up)
        assert not [each for each in told if not each["logger"].startswith("fleet.")]
    assert "scheduler is up: Redis 127." in (logs / "scheduler.log").read_text()


def test_a_worker_on_a_terminal_speaks_in_lines_and_ctrl_c_stops_it(
    shared: tuple[EmbeddedFleet, Fleet], tmp_path: Path
) -> None:
    """R32 in part: it says goodbye, and that is no failure."""
    settings = shared[0].settings.model_copy(update={"namespace": "terminal", "data": tmp_path})
    ours, theirs = pty.openpty()
    heard: list[str] = []

    def says(words: str) -> bool:
        heard.append(os.read(ours, 4096).decode())
        return words in "".join(heard)

    command = [sys.executable, "-m", "fleet", "worker", "--name", "desk"]
    with subprocess.Popen(command, env=child_environment(settings), stdout=theirs, stderr=theirs) as worker:
        os.close(theirs)
        until(lambda: says("is up"))
        worker.send_signal(SIGINT)
        until(lambda: says("has stopped"))
        assert worker.wait(30) == 0
    os.close(ours)
    lines = [line.strip() for line in "".join(heard).splitlines() if line.strip()]
    assert all(re.match(r"\d\d:\d\d:\d\d \w", line) for line in lines)
    own = [line.partition("@")[2].partition(" ")[2] for line in lines if " worker desk@" in line]
    assert [words.partition(":")[0] for words in own] == ["is up", "stops", "has stopped"]


def test_the_first_line_shows_where_stores_are_and_no_password() -> None:
    """R38 in part."""
    settings = Settings(
        redis_url=SecretStr("rediss://someone:sesame@there:6380/1"),
        database_url=SecretStr("postgresql+psycopg://fleet:sesame@here/fleet"),
    )
    assert summary(settings) == "Redis there:6380/1, record postgresql+psycopg://fleet:***@here/fleet"
