"""What `make demo` shows: a plan as it streams in, steps, an answer with its sources; and that nothing is left."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
import redis

from tests.servers import RedisProcess

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "research"
WAIT = 90.0
SECTIONS = ("Goal: ", "Answer\n", "Sources, ", "Cost\n", "Time\n", "The fleet has stopped")


@contextmanager
def demo(folder: Path, **more: str) -> Iterator[subprocess.Popen[str]]:
    """The demo, on a machine without a Redis server on PATH. folder: for its temporary files. more: of environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEET_")}
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE / "demo.py"), "--latency", "0.6"],
        env=kept | {"PATH": "/nonexistent", "TMPDIR": str(folder)} | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(WAIT)
        assert process.stdout is not None
        process.stdout.close()


def read_until(process: subprocess.Popen[str], there: Callable[[str], bool]) -> list[str]:
    """The lines up to the first for which `there` holds."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if there(line):
            return lines
    raise AssertionError(f"the line did not come: {lines}")


def rest(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.read().splitlines()


def pids(lines: list[str]) -> dict[str, int]:
    told = next(line for line in lines if "its processes:" in line)
    return {name: int(pid) for name, pid in re.findall(r"(\w+) (\d+)(?:,|$)", told.partition("its processes: ")[2])}


def answer(lines: list[str]) -> str:
    start, end = lines.index("Answer"), next(n for n, line in enumerate(lines) if line.startswith("Sources,"))
    return "\n".join(lines[start + 1 : end]).strip()


def recorded_answer() -> str:
    text = (EXAMPLE / "answer.txt").read_text()
    return text.partition("Action: Finish(")[2].rstrip().removesuffix(")")


class Shown(NamedTuple):
    """A demo that has ended. left: what it left of its temporary files."""

    lines: list[str]
    code: int
    left: list[Path]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    folder = tmp_path_factory.mktemp("demo")
    with demo(folder) as process:
        lines = rest(process)
        return Shown(lines, process.wait(WAIT), list(folder.iterdir()))


def test_the_demo_shows_a_run_from_its_plan_to_its_sources(shown: Shown) -> None:
    text = "\n".join(shown.lines)
    assert shown.code == 0, text
    at = [text.find(f"\n{section}") for section in SECTIONS]
    assert at == sorted(at)
    assert at[0] > 0
    assert answer(shown.lines) == recorded_answer()
    assert text.count("search succeeded after") == 13
    assert "  lifetimes.txt#4              Lithium-ion: 15 years or 6,000 full cycles under warranty.\n" in text


def test_the_demo_says_what_is_recorded_and_which_pauses_are_made_up(shown: Shown) -> None:
    text = "\n".join(shown.lines)
    assert "planner started on" in text
    assert text.count("(recorded turn)") == 2
    assert "The turns of planner and joiner are recorded" in text
    assert "A search waits 0.6 s as over a network" in text
    assert "as recorded (nothing was spent now)" in text


def test_the_demo_leaves_no_process_and_no_file(shown: Shown) -> None:
    assert {"redis", "scheduler", "w1", "w2"} == set(pids(shown.lines))
    assert not [pid for pid in pids(shown.lines).values() if psutil.pid_exists(pid)]
    assert shown.left == []


def test_steps_start_on_both_workers_while_the_planner_is_still_writing(shown: Shown) -> None:
    whole = next(n for n, line in enumerate(shown.lines) if "plan 1 is complete" in line)
    started = [line for line in shown.lines[:whole] if "search started on" in line]
    assert {line.rpartition(" ")[2] for line in started} == {"w1", "w2"}


def test_a_worker_that_is_killed_in_the_middle_changes_nothing_about_the_answer(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        lines = read_until(process, lambda line: "search started on w1" in line)
        os.kill(pids(lines)["w1"], signal.SIGKILL)
        lines += rest(process)
        assert process.wait(WAIT) == 0, "\n".join(lines)
    assert any("w1 died and was started again" in line for line in lines)
    assert answer(lines) == recorded_answer()
    assert list(tmp_path.iterdir()) == []


def test_a_redis_that_was_given_is_used_and_none_of_the_demos_keys_stays(
    tmp_path: Path, redis_server: RedisProcess
) -> None:
    with demo(tmp_path, FLEET_REDIS_URL=redis_server.url) as process:
        lines = rest(process)
        assert process.wait(WAIT) == 0, "\n".join(lines)
    assert set(pids(lines)) == {"w1", "w2", "scheduler"}
    with redis.Redis.from_url(redis_server.url) as client:
        assert list(client.scan_iter(match="demo-*")) == []


def test_ctrl_c_in_the_middle_ends_everything(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        lines = read_until(process, lambda line: "search started on" in line)
        process.send_signal(signal.SIGINT)
        lines += rest(process)
        assert process.wait(WAIT) == 130, "\n".join(lines)
    assert "Traceback" not in "\n".join(lines)
    assert not [pid for pid in pids(lines).values() if psutil.pid_exists(pid)]
    assert list(tmp_path.iterdir()) == []


def test_the_recorded_turns_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "record.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
