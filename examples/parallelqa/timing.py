"""How long goals took, beside the recorded ReAct runs and the ideal of latency.json; and where the time went.

Measured times are differences between the events' own times, by Redis's clock, not what a poller saw.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import mean
from typing import Any

from pursue import Pursued
from reference import DATA

from fleet.core.events import EventType

LEAST = 0.9
"""The part of the ideal speed-up that is asked for."""


@dataclass(frozen=True, kw_only=True)
class Branch:
    """Means of the questions of one branch, in seconds of the record. part: of the ideal speed-up."""

    name: str
    goals: int
    react: float
    ideal: float
    measured: float

    @property
    def speedup(self) -> float:
        return self.react / self.measured

    @property
    def part(self) -> float:
        return self.ideal / self.measured


def branches(golden: Sequence[Pursued], profile: str, scale: float) -> list[Branch]:
    """By branch, and all of them. golden: the runs of the golden set, in which no worker died."""
    table = latency()["questions"]
    groups: dict[str, list[Pursued]] = defaultdict(list)
    for run in golden:
        groups[str(table[run.goal.labels["question"]]["branch"])].append(run)
    return [_branch(name, groups[name], table, profile, scale) for name in sorted(groups)] + [
        _branch("all", golden, table, profile, scale)
    ]


def _branch(name: str, runs: Sequence[Pursued], table: Mapping[str, Any], profile: str, scale: float) -> Branch:
    entries = [table[run.goal.labels["question"]] for run in runs]
    return Branch(
        name=name,
        goals=len(runs),
        react=mean(entry["t_sequential_s"] for entry in entries),
        ideal=mean(entry[profile]["t_ideal_stream_s"] for entry in entries),
        measured=mean(seconds(run) for run in runs) / scale,
    )


def seconds(run: Pursued) -> float:
    """From its acceptance to its end."""
    return run.events[-1].at - run.events[0].at


@cache
def latency() -> dict[str, Any]:
    return dict(json.loads((DATA / "latency.json").read_text(encoding="utf-8")))


class CriticalPath:
    """The chain of events that a run's end hung on, walked back from the end: each piece of it is put to an account.

    Accounts: `recorded` is the delay of the data; every other one is the engine's, in real seconds: pick-up (accepted
    to planner started), planner (a line, or the plan, later than its recorded time), dispatch (a step ready but not
    started), step (a tool's step longer than its recorded call), join dispatch, joiner, end.
    """

    def __init__(self, run: Pursued, planner_s: float, joiner_s: float, scale: float) -> None:
        calls = latency()["questions"][run.goal.labels["question"]]["call_s"]
        self.spent: Counter[str] = Counter()
        self._calls = {step: value * scale for step, value in calls.items()}
        self._planner = planner_s
        self._joiner = joiner_s
        self._line = ""
        (self._plan,) = run.plans
        self._at = {(event.type, event.step): event.at for event in run.events}
        self._walk(run.events[-1].at)

    def _walk(self, end: float) -> None:
        joined, join = self._at[EventType.STEP_ENDED, "join.1"], self._at[EventType.STEP_STARTED, "join.1"]
        self.spent["end"] += end - joined
        self._ran("joiner", joined - join, self._joiner)
        ends = {step.id: self._at[EventType.STEP_ENDED, step.id] for step in self._plan.steps}
        ends["plan.1"] = self._at[EventType.STEP_ENDED, "plan.1"]
        last = max(ends, key=lambda step: ends[step])
        self.spent["join dispatch"] += join - ends[last]
        while last != "plan.1":
            last = self._step_back(last, ends)
        self._planned(self._at[EventType.STEP_ADDED, self._line] if self._line else ends["plan.1"], self._line)

    def _step_back(self, step: str, ends: Mapping[str, float]) -> str:
        """What that step waited for last: another step, or its line of the plan."""
        started, added = self._at[EventType.STEP_STARTED, step], self._at[EventType.STEP_ADDED, step]
        self._ran("step", ends[step] - started, self._calls.get(step, 0.0))
        needs = {need: ends[need] for need in self._plan.step(step).needs}
        last = max(needs, key=lambda need: needs[need], default="plan.1")
        ready = max(added, needs.get(last, 0.0))
        self.spent["dispatch"] += started - ready
        if added < ready:
            return last
        self._line = step
        return "plan.1"

    def _planned(self, at: float, line: str) -> None:
        begun, accepted = self._at[EventType.STEP_STARTED, "plan.1"], self._at[EventType.ACCEPTED, ""]
        share = int(line) / (len(self._plan.steps) + 1) if line else 1.0
        self._ran("planner", at - begun, self._planner * share)
        self.spent["pick-up"] += begun - accepted

    def _ran(self, account: str, took: float, recorded: float) -> None:
        self.spent["recorded"] += recorded
        self.spent[account] += took - recorded


def accounts(golden: Sequence[Pursued], delays: Mapping[tuple[str, str], float], scale: float) -> dict[str, float]:
    """Mean real seconds a goal by account. delays: of the model's turns, by (purpose, objective), scaled."""
    total: Counter[str] = Counter()
    for run in golden:
        planner, joiner = (delays[purpose, run.goal.objective] for purpose in ("planner", "joiner"))
        total.update(CriticalPath(run, planner, joiner, scale).spent)
    return {name: value / len(golden) for name, value in total.items()}
