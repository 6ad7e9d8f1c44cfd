"""The recorded turns of ParallelQA, through the tools and the scripted model, with and without planted faults."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from labels import right
from reference import Call, Observed, parse, records
from turns import goals, main, turns

from fleet.core.goal import Goal
from fleet.llm.scripted import ScriptedModel
from fleet.llm.turns import read_turns

ROOT = Path(__file__).parents[3]


def verdict(model: ScriptedModel, request: Any) -> tuple[str, str]:
    """The action of a joiner's or a step's turn, and its argument."""
    action = asyncio.run(model.complete(request)).text.rpartition("\nAction: ")[2]
    name, _, rest = action.partition("(")
    return name, rest.rpartition(")")[0]


def pursue(goal: Goal, model: ScriptedModel, runner: Any, prompt: Any, **faults: Any) -> tuple[str, int]:
    """Plan, run, join, and so on: the answer and the number of calls. faults: spoil and show, to plant some."""
    show = faults.pop("show", lambda seen: seen)
    rounds: list[list[Observed]] = []
    values: dict[str, Any] = {}
    reason, calls = "", 0
    while True:
        plan = parse(asyncio.run(model.complete(prompt("planner", goal.objective, *rounds, reason=reason))).text)
        seen = runner.run(plan, goal.labels, values, **faults)
        calls += len(plan)
        values |= {shown["id"]: shown["value"] for shown in seen if shown["status"] == "ok"}
        rounds.append(show(seen))
        action, argument = verdict(model, prompt("joiner", goal.objective, *rounds))
        if action != "Replan":
            return argument, calls
        reason = f"The last plan fell short: {argument}"


@pytest.fixture(scope="module")
def golden() -> ScriptedModel:
    return ScriptedModel(turns("golden", scale=0))


def test_every_golden_plan_ends_in_a_right_answer(golden: ScriptedModel, runner: Any, prompt: Any) -> None:
    answers = [(pursue(goal, golden, runner, prompt)[0], goal.labels["label"]) for goal in goals("golden")]
    assert len(answers) == 113
    assert all(right(answer, label) for answer, label in answers)


def test_every_replan_ends_in_a_right_answer_and_keeps_what_was_found(runner: Any, prompt: Any) -> None:
    """R15: the second plans hold 87 calls and not 241."""
    model = ScriptedModel(turns("replan", scale=0))
    first = {record["id"]: record["n_calls_round1"] for record in records("replan.jsonl")}
    again = 0
    for goal in goals("replan"):
        answer, calls = pursue(goal, model, runner, prompt)
        assert right(answer, goal.labels["label"])
        again += calls - first[goal.labels["question"]]
    assert again == 87


def test_a_planner_that_is_not_told_the_reason_has_no_turn(runner: Any, prompt: Any) -> None:
    model = ScriptedModel(turns("replan", scale=0, only=["1"]))
    (goal,) = goals("replan", only=["1"])
    with pytest.raises(Exception, match="no turn is recorded for planner, round 2"):
        asyncio.run(model.complete(prompt("planner", goal.objective, [{"id": "1"}], reason="do better")))


def test_every_react_transcript_ends_in_a_right_answer(runner: Any, prompt: Any) -> None:
    model = ScriptedModel(turns("react", scale=0))
    for goal in goals("react"):
        values: dict[str, Any] = {}
        seen: list[Observed] = []
        while True:
            name, argument = verdict(model, prompt("step", goal.objective, *([seen] if seen else [])))
            if name == "Finish":
                break
            number = len(seen) + 1
            plan = parse(f"{number}. {name}({argument})\n{number + 1}. join()")
            seen += runner.run(plan, goal.labels, values)
            values[str(number)] = seen[-1]["value"]
        assert goal.loop == "react"
        assert right(argument, goal.labels["label"])


def swapped(call: Call, args: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Two references of the plan are mixed up: what should read article 1 reads article 2, and the other way round."""
    if call.tool != "extract" or args["text"] not in (values["1"], values["2"]):
        return args
    return args | {"text": values["2"] if args["text"] == values["1"] else values["1"]}


def stale(call: Call, args: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A calculation gets the number of the call before the one that it refers to."""
    if call.tool != "calc":
        return args
    numbers = [key for key, value in values.items() if isinstance(value, int | float)]
    older = dict(zip(numbers[1:], numbers, strict=False))
    expression = args["expression"]
    bound = {name: values[older.get(name[1:], name[1:])] for name in expression["variables"]}
    return args | {"expression": expression | {"variables": bound}}


def test_a_swap_of_references_costs_every_answer(golden: ScriptedModel, runner: Any, prompt: Any) -> None:
    """R12: an engine that mixes values up can't score."""
    for goal in goals("golden"):
        answer, _ = pursue(goal, golden, runner, prompt, spoil=swapped)
        assert answer == "unknown"
        assert not right(answer, goal.labels["label"])


def test_a_stale_value_costs_every_answer(golden: ScriptedModel, runner: Any, prompt: Any) -> None:
    assert {pursue(goal, golden, runner, prompt, spoil=stale)[0] for goal in goals("golden")} == {"unknown"}


@pytest.mark.parametrize("lost", [0, -1])
def test_a_lost_result_costs_every_answer(golden: ScriptedModel, runner: Any, prompt: Any, lost: int) -> None:
    """R16: a join that opens too early can't score."""

    def show(seen: list[Observed]) -> list[Observed]:
        return [shown for shown in seen if shown is not seen[lost]]

    assert {pursue(goal, golden, runner, prompt, show=show)[0] for goal in goals("golden")} == {"unknown"}


def test_an_error_shown_as_a_value_costs_the_answer(runner: Any, prompt: Any) -> None:
    """R18: an error's text never becomes a value."""
    model = ScriptedModel(turns("replan", scale=0, only=["38"]))
    (goal,) = goals("replan", only=["38"])

    def show(seen: list[Observed]) -> list[Observed]:
        failed = next(shown for shown in seen if shown["status"] == "error")
        as_value = {"id": failed["id"], "call": failed["call"], "status": "ok", "value": failed["message"]}
        return [as_value if shown is failed else shown for shown in seen]

    assert pursue(goal, model, runner, prompt, show=show)[0] == "unknown"


@pytest.mark.parametrize(
    ("profile", "planner", "joiner"), [("paper_parts", 1.88, 1.62), ("paper_totals", 6.995, 4.478)]
)
def test_delays_have_the_means_of_their_profile(profile: str, planner: float, joiner: float) -> None:
    made = turns("golden", profile=profile, scale=0.1)
    for purpose, mean in (("planner", planner), ("joiner", joiner)):
        delays = [turn.delay_s for turn in made if turn.purpose == purpose]
        assert sum(delays) / len(delays) == pytest.approx(mean / 10, rel=1e-3)


def test_a_react_run_takes_the_paper_s_time_with_its_tools() -> None:
    steps = sum(turn.delay_s for turn in turns("react")) / 113
    assert steps == pytest.approx(12.97 * 1.849, rel=1e-2)


def test_goals_say_what_the_tools_want_to_know() -> None:
    (goal,) = goals("replan", scale=0.1, only=["4"], tenant="bench", priority=7)
    assert goal.labels == {"set": "replan", "question": "4", "scale": "0.1", "label": goal.labels["label"]}
    assert goal.tools == ("search", "extract", "calc", "pick")
    assert (goal.tenant, goal.priority, goal.loop) == ("bench", 7, "llm_compiler")


@pytest.mark.parametrize(("which", "count"), [("golden", 226), ("replan", 80), ("react", 1466)])
def test_a_file_of_turns_is_what_was_made(tmp_path: Path, which: str, count: int) -> None:
    out = tmp_path / "turns.jsonl"
    main(["--set", which, "--profile", "paper_parts", "--scale", "0.5", "--out", str(out)])
    assert read_turns(out) == tuple(turns(which, profile="paper_parts", scale=0.5))
    assert len(read_turns(out)) == count


def test_the_command_in_the_readme_works(tmp_path: Path) -> None:
    out = tmp_path / "turns.jsonl"
    command = [sys.executable, "examples/parallelqa/turns.py", "--set", "golden", "--only", "1,2", "--out", str(out)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == f"4 turns of golden in {out}\n"
    assert len(read_turns(out)) == 4


@pytest.mark.parametrize(
    ("answer", "label", "is_right"),
    [
        ("101", "100", True),
        ("109.99", "100", True),
        ("111", "100", False),
        ("90", "100", False),
        ("the Eiffel Tower.", "Eiffel tower", True),
        ("Eiffel", "Eiffel Tower", False),
        ("unknown", "100", False),
        ("about 100", "100", False),
        ("unknown", "Mariana Trench", False),
    ],
)
def test_the_rule_for_a_right_answer(answer: str, label: str, is_right: bool) -> None:
    assert right(answer, label) is is_right
