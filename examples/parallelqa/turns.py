"""Writes the recorded turns of ParallelQA for the scripted model.

    python examples/parallelqa/turns.py --set golden --profile paper_totals --scale 0.1 --out turns.jsonl
    FLEET_MODEL_SCRIPT=turns.jsonl FLEET_TOOLS=examples/parallelqa/tools.py ...

A joiner's turn expects the observations that carrying out its plan one call at a time gives (reference.py); a fleet
that loses, mixes up or keeps an old value so gets the answer `unknown`. Every delay is that of data/latency.json times
--scale.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from reference import DATA, Observed, Reference, parse, records

from fleet.core.goal import Goal
from fleet.llm.turns import Observation, Turn, write_turns

SETS = ("golden", "replan", "react")
PROFILES = ("paper_parts", "paper_totals")
TOOLS = ("search", "extract", "calc", "pick")


def goals(which: str, *, scale: float = 0.0, only: Sequence[str] = (), **fields: Any) -> list[Goal]:
    """A goal for each record of a set, labelled as the tools want it (`set`, `question`, `scale`) and with its `label`.

    scale: factor on the tools' latency; 0 for none. only: the ids of the wanted questions; all, if none is given.
    fields: of every goal, such as `tenant`.
    """
    if which == "react":
        fields = {"loop": "react"} | fields
    return [
        Goal(
            objective=record["question"],
            tools=TOOLS,
            labels={"set": which, "question": record["id"], "scale": str(scale), "label": record["label"]},
            **fields,
        )
        for record in _wanted(which, only)
    ]


def turns(which: str, *, profile: str = "paper_totals", scale: float = 1.0, only: Sequence[str] = ()) -> list[Turn]:
    """The turns of a set, in the order of its records. Raises KeyError for an unknown set or profile."""
    latency = Latency(profile, scale)
    made = {"golden": _golden, "replan": _replan, "react": _react}[which]
    reference = Reference()
    return [turn for record in _wanted(which, only) for turn in made(record, reference, latency)]


class Latency:
    """Delays of model turns: seconds of the table, times the profile's factor, times the scale."""

    def __init__(self, profile: str, scale: float) -> None:
        table = _table()
        factors = table["meta"]["profiles"][profile]
        self.tables = {"golden": table["questions"], "react": table["questions"], "replan": table["replan"]}
        self._planner = factors["planner_scale"] * scale
        self._joiner = factors["joiner_scale"] * scale
        self._step = scale

    def planner(self, which: str, question: str, number: int) -> float:
        return float(round(_entry(self.tables[which][question]["planner_s"], number) * self._planner, 6))

    def joiner(self, which: str, question: str, number: int) -> float:
        return float(round(_entry(self.tables[which][question]["joiner_s"], number) * self._joiner, 6))

    def step(self, question: str, number: int) -> float:
        return float(round(self.tables["react"][question]["react_step_s"][number] * self._step, 6))


def _golden(record: dict[str, Any], reference: Reference, latency: Latency) -> Iterator[Turn]:
    question, goal = record["id"], record["question"]
    observed = reference.carry_out(parse(record["plan"]))
    yield Turn(purpose="planner", goal=goal, text=record["plan"], delay_s=latency.planner("golden", question, 0))
    yield Turn(
        purpose="joiner",
        goal=goal,
        text=record["joiner"],
        delay_s=latency.joiner("golden", question, 0),
        expect_observations=_expected(observed),
    )


def _replan(record: dict[str, Any], reference: Reference, latency: Latency) -> Iterator[Turn]:
    question, goal = record["id"], record["question"]
    observed: list[Observed] = []
    reason: tuple[str, ...] = ()
    for number, past in enumerate(record["rounds"]):
        values = {seen["id"]: seen["value"] for seen in observed if seen["status"] == "ok"}
        observed += reference.carry_out(parse(past["plan"]), values, record["faults"])
        yield Turn(
            purpose="planner",
            round=number + 1,
            goal=goal,
            contains=reason,
            text=past["plan"],
            delay_s=latency.planner("replan", question, number),
        )
        yield Turn(
            purpose="joiner",
            round=number + 1,
            goal=goal,
            text=past["joiner"],
            delay_s=latency.joiner("replan", question, number),
            expect_observations=_expected(observed),
        )
        reason = (past["joiner"].partition("Action: Replan(")[2].rpartition(")")[0],)


def _react(record: dict[str, Any], reference: Reference, latency: Latency) -> Iterator[Turn]:
    actions = [text.partition("\nAction: ")[2] for text in record["turns"]]
    written = "\n".join(f"{n}. {action}" for n, action in enumerate(actions[:-1], 1))
    observed = reference.carry_out(parse(f"{written}\n0. join()"))
    for number, text in enumerate(record["turns"]):
        yield Turn(
            purpose="step",
            round=number + 1,
            goal=record["question"],
            text=text,
            delay_s=latency.step(record["id"], number),
            # A loop of single calls may show them resolved or not, so only what they came to is compared.
            expect_observations=_expected({**seen, "call": None} for seen in observed[:number]),
        )


def _expected(observed: Iterable[Observed]) -> tuple[Observation, ...]:
    return tuple(Observation.model_validate(seen) for seen in observed)


def _wanted(which: str, only: Sequence[str]) -> list[dict[str, Any]]:
    return [record for record in records(f"{which}.jsonl") if not only or record["id"] in only]


def _entry(value: float | list[float], number: int) -> float:
    return value[number] if isinstance(value, list) else value


def _table() -> dict[str, Any]:
    return dict(json.loads((DATA / "latency.json").read_text(encoding="utf-8")))


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a file of turns, as the command line says."""
    parser = argparse.ArgumentParser(description="Write recorded turns of ParallelQA for the scripted model.")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--set", choices=SETS, default="golden", help="which records")
    parser.add_argument("--profile", choices=PROFILES, default="paper_totals", help="whose planner and joiner times")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on every delay")
    parser.add_argument("--only", default="", help="ids of questions, comma separated")
    chosen = parser.parse_args(arguments)
    only = [each for each in chosen.only.split(",") if each]
    made = turns(chosen.set, profile=chosen.profile, scale=chosen.scale, only=only)
    write_turns(chosen.out, made)
    sys.stdout.write(f"{len(made)} turns of {chosen.set} in {chosen.out}\n")


if __name__ == "__main__":
    main()
