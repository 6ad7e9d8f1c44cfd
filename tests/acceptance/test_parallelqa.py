"""ParallelQA as a batch through real workers: answers that only a correct engine can give, and faults that it shows."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from fleet.core.goal import Goal
from fleet.llm.turns import Turn, write_turns
from tests.acceptance import spoilt_tools
from tests.fleets import running

EXAMPLE = spoilt_tools.EXAMPLE
sys.path.insert(0, str(EXAMPLE))

from findings import wrong  # noqa: E402
from pursue import batch, pursue, settings_of  # noqa: E402
from reference import Call, parse, records  # noqa: E402
from turns import turns  # noqa: E402

OF_A_KIND = 5
KINDS = ("references swapped", "a result dropped", "a stale value", "references swapped in the plan")


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What the example's command says of all records, run as fast as it goes."""
    command = [sys.executable, str(EXAMPLE / "run.py"), "--set", "all", "--scale", "0", "--in-flight", "0", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


def test_every_answer_matches_its_label_with_exactly_the_calls_of_the_data(found: dict[str, Any]) -> None:
    """R1, R12, R16: 113 of 113 with 1,353 calls, each made once."""
    golden = found["sets"]["golden"]
    assert (golden["right"], golden["goals"], golden["attempts"]) == (113, 113, 1353)
    assert golden["calls"] == {"search": 426, "extract": 438, "calc": 449, "pick": 40}


def test_every_replan_keeps_what_was_found_and_ends_in_the_right_answer(found: dict[str, Any]) -> None:
    """R15: 20 of 20, with 87 calls in the second plans."""
    replan = found["sets"]["replan"]
    assert (replan["right"], replan["goals"], replan["second"], replan["joins"]) == (20, 20, 87, 40)


def test_without_a_fault_no_call_is_issued_twice(found: dict[str, Any]) -> None:
    """R1: by the model's own count of its calls."""
    assert (found["done_again"], found["reissued"], found["takeovers"]) == (0, [], 0)
    assert found["demands"]["the model's own count of its calls is the ledger's"]


@pytest.fixture(scope="module")
def spoilt() -> dict[str, dict[str, dict[str, str | None]]]:
    """By kind of fault: questions, and what the label `spoilt` says of each. The faults in plans say it by the plan."""
    suited = [record for record in records("golden.jsonl") if _two_readings(parse(record["plan"]))]
    chosen = iter(suited)
    return {
        kind: {record["id"]: _fault(kind, parse(record["plan"])) for record in islice(chosen, OF_A_KIND)}
        for kind in KINDS
    }


def test_each_planted_fault_costs_exactly_its_answers(
    spoilt: dict[str, dict[str, dict[str, str | None]]], tmp_path: Path
) -> None:
    """R12, R16: values that are swapped, dropped or stale can't score, and spoil no other goal."""
    in_plans = set(spoilt[KINDS[3]])
    write_turns(tmp_path / "turns.jsonl", _turns(in_plans))
    labels = {question: json.dumps(fault) for each in spoilt.values() for question, fault in each.items()}
    settings = settings_of(tmp_path / "fleet", tmp_path / "turns.jsonl", 2, 32, tools=spoilt_tools.__file__)
    with running(settings) as (fleet, client):
        pursued = pursue(fleet, client, [_labelled(goal, labels) for goal in batch("golden", 0.0)], timeout=100.0)
    missed = {run.goal.labels["question"]: run.end.answer for run in wrong(pursued)}
    for kind in KINDS:
        assert set(spoilt[kind]) <= set(missed), kind
    assert set(missed) == set(labels)
    assert set(missed.values()) == {"unknown"}


def _two_readings(calls: list[Call]) -> list[Call]:
    """The first two calls that read the same attribute of two articles; empty where there are no such."""
    readings = [call for call in calls if call.tool == "extract"]
    pair = [call for call in readings if call.args[1] == readings[0].args[1]][:2] if readings else []
    return pair if len(pair) == 2 and pair[0].args[0] != pair[1].args[0] else []


def _fault(kind: str, calls: list[Call]) -> dict[str, str | None]:
    """What the label says; the second of two readings gets what was read before, or both each other's article."""
    first, second = _two_readings(calls)
    titles = {f"${call.id}": str(call.args[0]) for call in calls if call.tool == "search"}
    names = titles[first.args[0]], titles[second.args[0]]
    faults: Mapping[str, dict[str, str | None]] = {
        KINDS[0]: {first.id: names[1], second.id: names[0]},
        KINDS[1]: {second.id: None},
        KINDS[2]: {second.id: names[0]},
    }
    return faults.get(kind, {})


def _turns(in_plans: set[str]) -> Iterator[Turn]:
    """The recorded turns, with two references swapped in the plans of some questions."""
    for turn in turns("golden", scale=0.0):
        question = next(record["id"] for record in records("golden.jsonl") if record["question"] == turn.goal)
        if turn.purpose == "planner" and question in in_plans:
            yield turn.model_copy(update={"text": _swapped(turn.text)})
        else:
            yield turn


def _swapped(plan: str) -> str:
    first, second = (f'extract("{call.args[0]}"' for call in _two_readings(parse(plan)))
    return plan.replace(first, "(first)").replace(second, first).replace("(first)", second)


def _labelled(goal: Goal, spoilt: Mapping[str, str]) -> Goal:
    mark = spoilt.get(goal.labels["question"])
    return goal.model_copy(update={"labels": goal.labels | {"spoilt": mark}}) if mark else goal
