"""`fleet up` as a person meets it: started, used from other terminals, stopped by Ctrl-C."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from fleet.settings import Settings, child_environment

PLAN = """\
goal: add numbers up
parameters: {n: {required: true}}
steps:
  - {id: 1, tool: calc, args: {expression: "1 + {{n}}"}}
  - {id: 2, tool: calc, args: {expression: "$1 * 2"}}
answer: "$2"
"""


@dataclass
class Terminal:
    folder: Path

    def start(self, *argv: str) -> "subprocess.Popen[str]":
        environment = {k: v for k, v in child_environment(Settings()).items() if not k.startswith("FLEET_")}
        return subprocess.Popen(
            [sys.executable, "-m", "fleet", *argv],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *argv: str) -> tuple[int, str, str]:
        process = self.start(*argv)
        out, err = process.communicate(timeout=90)
        return process.returncode, out, err

    def json(self, *argv: str) -> Any:
        code, out, err = self.run(*argv, "--json")
        assert code == 0, err
        return json.loads(out)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    folder = tmp_path_factory.mktemp("up")
    (folder / "plan.yaml").write_text(PLAN)
    return Terminal(folder)


@pytest.fixture(scope="module")
def up(terminal: Terminal) -> Iterator["subprocess.Popen[str]"]:
    process = terminal.start("up", "--no-flower", "--workers", "1", "--slots", "4")
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("try: "):
                break
        assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_plan_is_submitted_watched_and_answered_in_json(up: "subprocess.Popen[str]", terminal: Terminal) -> None:
    handle = terminal.json("submit", "plan.yaml", "--set", "n=3")
    assert handle["new"] is True
    end = terminal.json("result", handle["goal_id"], "--timeout", "60")
    assert (end["status"], end["reason"], end["answer"]) == ("succeeded", "finished", 8)
    status = terminal.json("status", handle["goal_id"])
    assert {step["id"]: step["state"] for step in status["steps"]}["2"] == "succeeded"
    code, out, _ = terminal.run("watch", handle["goal_id"], "--json")
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert (events[0]["type"], events[-1]["type"]) == ("run.accepted", "run.ended")
    code, out, err = terminal.run("watch", handle["goal_id"], "--after", events[-2]["id"])
    assert (code, len(out.splitlines()), err) == (0, 1, "")


def test_run_uses_the_fleet_that_is_there_and_prints_the_answer_alone(
    up: "subprocess.Popen[str]", terminal: Terminal
) -> None:
    code, out, err = terminal.run("run", "plan.yaml", "--set", "n=4")
    assert (code, out) == (0, "10\n")
    assert "starting a fleet" not in err
    assert " 2        calc succeeded after " in err


def test_a_goal_that_fails_is_exit_code_1(up: "subprocess.Popen[str]", terminal: Terminal) -> None:
    (terminal.folder / "fails.yaml").write_text(PLAN.replace("$1 * 2", "$1 / 0"))
    code, out, err = terminal.run("run", "fails.yaml", "--set", "n=4")
    assert code == 1
    assert "failed: steps_failed" in err
    assert "Traceback" not in out + err


def test_an_unknown_goal_is_exit_code_3(up: "subprocess.Popen[str]", terminal: Terminal) -> None:
    for argv in (["status", "nobody"], ["watch", "nobody"]):
        code, out, err = terminal.run(*argv)
        assert (code, out) == (3, "")
        assert "nobody" in err


def test_a_key_that_is_used_for_another_goal_is_exit_code_5(up: "subprocess.Popen[str]", terminal: Terminal) -> None:
    """R35"""
    first = terminal.json("submit", "plan.yaml", "--set", "n=1", "--with", "key=once")
    again = terminal.json("submit", "plan.yaml", "--set", "n=1", "--with", "key=once")
    assert (again["goal_id"], again["new"]) == (first["goal_id"], False)
    code, _, err = terminal.run("submit", "plan.yaml", "--set", "n=2", "--with", "key=once", "--with", "objective=else")
    assert code == 5, err


def test_a_worker_tells_by_an_exit_code_whether_it_serves(up: "subprocess.Popen[str]", terminal: Terminal) -> None:
    assert terminal.run("worker", "--check", "--name", "w1")[0] == 0
    assert terminal.run("worker", "--check", "--name", "w9")[0] == 1


def test_a_second_fleet_on_the_folder_is_refused_with_the_first_ones_addresses(
    up: "subprocess.Popen[str]", terminal: Terminal
) -> None:
    code, out, err = terminal.run("up")
    assert (code, out) == (5, "")
    assert f"pid {up.pid}, redis 127.0.0.1:" in err


def test_ctrl_c_stops_a_fleet_and_leaves_nobody_behind(tmp_path: Path) -> None:
    process = Terminal(tmp_path).start("up", "--no-flower", "--workers", "1", "--json")
    try:
        assert process.stdout is not None
        document = "".join(iter(process.stdout.readline, "}\n"))
        told = json.loads(document + "}")
        assert set(told["pids"]) == {"redis", "w1", "scheduler"}
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert "the fleet has stopped" in err
    assert not [pid for pid in told["pids"].values() if psutil.pid_exists(pid)]
    assert not (tmp_path / ".fleet" / "fleet.json").exists()
