"""Commands as a person or a script meets them: what is printed where, and the exit code."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleet import __version__
from fleet.cli import main as cli
from fleet.cli.out import jsonable
from fleet.errors import Overloaded, StoreUnreachable
from fleet.settings import Settings, child_environment

Command = Callable[..., Any]

PLAN = """\
goal: {objective: add numbers up, priority: 7, budget: {tokens: 100, steps: 9}}
parameters: {n: {required: true}}
steps:
  - {id: 1, tool: calc, args: {expression: "1 + {{n}}"}}
  - {id: 2, tool: calc, args: {expression: "$1 * 2"}}
"""


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    ("argv", "code", "sentence"),
    [
        (["xyzzy"], 2, "No such command 'xyzzy'"),
        (["submit", "--xyzzy"], 2, "No such option"),
        (["up", "--workers", "many"], 2, "Invalid value for '--workers'"),
        (["up", "--workers", "0"], 2, "FLEET_WORKERS (from flag) is '0': input should be greater than 0"),
        (["submit"], 2, "say one of both"),
        (["submit", "a", "--file", "b"], 2, "say one of both"),
        (["submit", "--file", "nowhere.jsonl"], 2, "there is no file nowhere.jsonl"),
        (["submit", "nowhere.yaml"], 2, "there is no file nowhere.yaml"),
        (["submit", "  "], 2, "a goal needs an objective"),
        (["submit", "a", "--with", "priority"], 2, "--with 'priority' is not NAME=VALUE"),
        (["submit", "a", "--with", "priority=11"], 2, "priority: Input should be less than or equal to 9"),
        (["submit", "a", "--with", "colour=red"], 2, "colour: Extra inputs are not permitted"),
        (["submit", "a", "--set", "n=1"], 2, "--set is for plan files"),
        (["plan", "check", "nowhere.yaml"], 2, "there is no file nowhere.yaml"),
        (["submit", "a"], 9, "start one with `fleet up`, or set FLEET_REDIS_URL"),
        (["status", "01J"], 9, "start one with `fleet up`, or set FLEET_REDIS_URL"),
        (["worker"], 9, "start one with `fleet up`, or set FLEET_REDIS_URL"),
        (["scheduler"], 9, "start one with `fleet up`, or set FLEET_REDIS_URL"),
    ],
)
def test_a_mistake_is_one_sentence_on_stderr_and_an_exit_code(
    argv: list[str], code: int, sentence: str, fleet: Command
) -> None:
    said = fleet(*argv)
    assert (said.code, said.out) == (code, "")
    assert sentence in said.err
    assert "Traceback" not in said.err


def test_a_misspelt_setting_stops_every_command_with_the_nearest_name(
    fleet: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_SLOT", "4")
    for argv in (["up"], ["worker"], ["submit", "a"], ["config", "show"]):
        said = fleet(*argv)
        assert (said.code, said.out) == (2, "")
        assert said.err == "fleet: FLEET_SLOT is no setting: did you mean FLEET_SLOTS?\n"


def test_a_redis_that_does_not_answer_is_exit_code_9_without_its_password(
    fleet: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_REDIS_URL", f"redis://:hush@127.0.0.1:{unused_port()}/0")
    said = fleet("up")
    assert said.code == 9
    assert said.err.startswith("fleet: Redis at redis://:***@127.0.0.1:")
    assert "hush" not in said.err


def test_a_second_fleet_on_a_folder_is_exit_code_5_and_names_the_first(fleet: Command, folder: Path) -> None:
    from fleet.embedded.folder import DataFolder, FleetNote

    with DataFolder(folder / ".fleet") as held:
        held.note(FleetNote(pid=4711, addresses={"redis": "127.0.0.1:1"}))
        said = fleet("up")
    assert said.code == 5
    assert "a fleet (pid 4711, redis 127.0.0.1:1) already runs on" in said.err


def test_a_bug_is_one_line_and_a_traceback_only_with_debug(fleet: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **more: object) -> None:
        raise KeyError("deep inside")

    monkeypatch.setattr("fleet.settings.load_settings", broken)
    said = fleet("up")
    assert (said.code, said.err) == (
        1,
        "fleet: this is a bug: KeyError: 'deep inside'; `fleet --debug ...` shows where\n",
    )
    assert "Traceback" in fleet("--debug", "up").err


def test_the_documented_exit_codes_are_those_of_the_errors() -> None:
    from fleet import errors

    codes = {
        name: kind.exit_code
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.FleetFault)
    }
    assert codes == {
        "FleetFault": 1,
        "NotNow": 1,
        "BadSetting": 2,
        "BadInput": 2,
        "PlanRejected": 2,
        "UnknownTool": 2,
        "ClockSimulated": 2,
        "UnknownGoal": 3,
        "UnknownLetter": 3,
        "KeyReused": 5,
        "FleetRunning": 5,
        "WrongState": 5,
        "TimedOut": 6,
        "PortTaken": 7,
        "Overloaded": 8,
        "StoreUnreachable": 9,
        "ModelUnavailable": 10,
    }


def test_settings_are_shown_with_their_sources_and_without_secrets(
    fleet: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R38"""
    monkeypatch.setenv("FLEET_REDIS_URL", "redis://:hush@redis:6379/0")
    monkeypatch.setenv("FLEET_MODEL_KEY", "sk-hush")
    plain, sourced = fleet("config", "show"), fleet("config", "show", "--sources")
    assert "FLEET_REDIS_URL=redis://:***@redis:6379/0\n" in plain.out
    assert "FLEET_MODEL_KEY=***  # environment\n" in sourced.out
    assert "FLEET_SLOTS=16  # default\n" in sourced.out
    as_json = json.loads(fleet("config", "show", "--json").out)
    assert as_json["FLEET_SLOTS"] == "16"
    origins = {
        each["variable"]: each["source"] for each in json.loads(fleet("config", "show", "--sources", "--json").out)
    }
    assert origins["FLEET_REDIS_URL"] == "environment"
    assert "hush" not in plain.out + sourced.out + str(as_json)


def test_the_version_is_told(fleet: Command) -> None:
    assert fleet("version").out == f"{__version__}\n"
    assert json.loads(fleet("version", "--json").out) == {"version": __version__}


def test_a_sound_plan_file_is_summed_up(fleet: Command, folder: Path) -> None:
    (folder / "plan.yaml").write_text(PLAN)
    said = fleet("plan", "check", "plan.yaml", "--set", "n=3")
    assert (said.code, said.err) == (0, "the plan is sound: 2 steps, 2 deep\n")
    assert said.out == "1  calc (pure)\n  2  calc (pure)  after 1\n"
    told = json.loads(fleet("plan", "check", "plan.yaml", "--set", "n=3", "--json").out)
    assert (told["ok"], told["depth"], told["steps"][1]["needs"]) == (True, 2, ["1"])


def test_a_wrong_plan_file_is_refused_with_every_problem(fleet: Command, folder: Path) -> None:
    (folder / "plan.yaml").write_text(PLAN.replace("tool: calc", "tool: calx"))
    said = fleet("plan", "check", "plan.yaml", "--set", "n=3")
    assert said.code == 2
    assert said.err.startswith("fleet: the plan was rejected:\n  ")
    assert "calx" in said.err
    told = fleet("plan", "check", "plan.yaml", "--set", "n=3", "--json")
    assert told.code == 2
    assert json.loads(told.out)["ok"] is False
    assert json.loads(told.out)["problems"]


def test_a_plan_file_gives_a_goal_and_options_win_over_it(folder: Path) -> None:
    from fleet.cli.options import fields
    from fleet.cli.reading import read_goal

    (folder / "plan.yaml").write_text(PLAN)
    goal, plan = read_goal("plan.yaml", fields(["budget.tokens=5", "key=k"]), {"n": 3}, Settings())
    assert plan is not None
    assert (goal.objective, goal.loop, goal.priority, goal.key) == ("add numbers up", "plan", 7, "k")
    assert (goal.budget.tokens, goal.budget.steps) == (5, 9)


def test_a_file_of_goals_may_hold_objects_and_words_and_names_a_bad_line(fleet: Command, folder: Path) -> None:
    from fleet.cli.reading import read_goals

    (folder / "goals.jsonl").write_text('{"objective": "a", "priority": 9}\n\n"b"\n')
    assert [(goal.objective, goal.priority) for goal in read_goals(Path("goals.jsonl"))] == [("a", 9), ("b", 4)]
    for text, sentence in (("nonsense\n", "line 1 is not JSON"), ('"a"\n{}\n', "line 2: objective"), ("", "no goal")):
        (folder / "goals.jsonl").write_text(text)
        said = fleet("submit", "--file", "goals.jsonl")
        assert said.code == 2
        assert sentence in said.err


def test_a_batch_tells_of_each_item_and_ends_with_the_worst_code(capsys: pytest.CaptureFixture[str]) -> None:
    """R35"""
    import typer

    from fleet.cli.goals import _tell

    class Accepted:
        goal_id = "01J"

        def _asdict(self) -> dict[str, object]:
            return {"goal_id": "01J", "run_id": "01K", "new": True}

    with pytest.raises(typer.Exit) as ended:
        _tell([Accepted(), Overloaded("too many open goals"), StoreUnreachable("gone")], json=True, many=True)
    told = json.loads(capsys.readouterr().out)
    assert ended.value.exit_code == 9
    assert told[0] == {"goal_id": "01J", "run_id": "01K", "new": True}
    assert told[1] == {"error": "too many open goals", "exit_code": 8, "retry_after": 10.0}


def test_json_tells_of_a_refusal_too_and_when_to_try_again(fleet: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """R6: a program reads one line on stdout; a person has the sentence on stderr."""
    monkeypatch.setenv("FLEET_REDIS_URL", f"redis://127.0.0.1:{unused_port()}/0")
    said = fleet("submit", "compare things", "--json")
    told = json.loads(said.out)
    assert (said.code, told["exit_code"], told["retry_after"]) == (9, 9, 5.0)
    assert told["error"] in said.err
    assert "retry_after" not in json.loads(fleet("submit", "--json").out)


@pytest.mark.parametrize("argv", [["--help"], ["version"], ["config", "show"], ["submit", "--help"], ["up", "--help"]])
def test_what_needs_no_fleet_starts_without_loading_one(argv: list[str], folder: Path) -> None:
    code = (
        "import sys\nfrom fleet.cli.main import main\ncode = main(sys.argv[1:])\n"
        "heavy = {'celery', 'kombu', 'redis', 'sqlmodel', 'sqlalchemy', 'pydantic_ai', 'openai', 'flower', 'httpx'}\n"
        "sys.exit(' '.join(sorted(heavy & set(sys.modules))) or code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_module_is_the_command_and_prints_no_colour_where_none_is_wanted(folder: Path) -> None:
    environment = {**child_environment(Settings()), "NO_COLOR": "1", "FORCE_COLOR": ""}
    done = subprocess.run(
        [sys.executable, "-m", "fleet", "--help"], capture_output=True, text=True, check=True, env=environment
    )
    assert "submit" in done.stdout
    assert "\x1b[3" not in done.stdout


def test_a_reader_that_goes_away_is_no_traceback(folder: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        done = subprocess.run(
            [sys.executable, "-m", "fleet", "config", "show"],
            stdout=gone,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "")


def test_json_takes_values_dataclasses_and_named_tuples() -> None:
    from fleet.core.outcome import Failure
    from fleet.store.lanes import WorkerSeen

    assert jsonable(Failure(type="t", message="m"))["cls"] == "permanent"
    assert jsonable(WorkerSeen("w1", "main", 2)) == {"name": "w1", "lanes": "main", "slots": 2}


def test_main_is_the_entry_point() -> None:
    assert callable(cli.main)


def test_a_bare_fleet_shows_its_help_and_says_nothing_empty(fleet: Command) -> None:
    said = fleet()
    assert said.code == 2
    assert "submit" in said.out + said.err
    assert "fleet: \n" not in said.err


def test_words_without_a_planner_are_refused_before_a_fleet_is_started(fleet: Command, folder: Path) -> None:
    said = fleet("run", "Say hello")
    assert said.code == 10
    assert "FLEET_PLANNER_MODEL" in said.err
    assert list(folder.iterdir()) == []
