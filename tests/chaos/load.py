"""The load of a scenario: goals of many shapes, each with the answer that it has to come to, whatever dies."""

import json
import random
from pathlib import Path
from typing import NamedTuple

from fleet.core.goal import Goal
from fleet.core.plan import Plan
from fleet.core.tool import ToolSpec
from fleet.core.value import Json
from fleet.llm.turns import Observation, Turn
from fleet.planning.documents import load_plan
from fleet.tools.registry import Registry

EFFECTS = Path(__file__).with_name("effects.py")
SUM = "Find the sum"
MEND = "Mend the sum"
KINDS = ("chain", "fan", "diamond", "billed", "written", "sum", "mend")
SHORTEST, LONGEST = 10, 300
"""Milliseconds of a step."""


class Load(NamedTuple):
    """A goal, its plan (None: a planner's), and its right answer."""

    goal: Goal
    plan: Plan | None
    answer: Json


class Shaped(NamedTuple):
    """A step: its needs, its tool, and how long it takes (ms)."""

    needs: tuple[str, ...]
    tool: str
    ms: int


def specs() -> dict[str, ToolSpec]:
    return {spec.name: spec for spec in Registry.load([str(EFFECTS)]).specs()}


def planned(steps: dict[str, Shaped], log: Path, name: str) -> Load:
    """A goal that follows these steps, the last of which is its answer."""
    values: dict[str, int] = {}
    written = {}
    for step, (needs, tool, ms) in steps.items():
        values[step] = 1 + sum(values[need] for need in needs)
        args = {"log": str(log), "ms": ms, "upon": [f"${need}" for need in needs]}
        written[step] = {"tool": tool, "args": args, "needs": list(needs)}
    last = next(reversed(steps))
    document = load_plan(json.dumps({"goal": name, "steps": written, "answer": f"${last}"}), specs(), {}, name)
    return Load(document.goal, document.plan, values[last])


def chain(length: int, ms: int, tool: str = "work") -> dict[str, Shaped]:
    return {f"s{n}": Shaped((f"s{n - 1}",) if n else (), tool, ms) for n in range(length)}


class Loads:
    """Makes goals of all shapes, as chance says. log: where their tools tell of their effects."""

    def __init__(self, seed: int, log: Path) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - chance, no secret
        self._log = log
        self._made = 0

    def next(self, kind: str = "") -> Load:
        """kind: one of KINDS, or any."""
        self._made += 1
        kind = kind or self._chance.choice(KINDS)
        if kind in ("sum", "mend"):
            objective = SUM if kind == "sum" else MEND
            return Load(Goal(objective=f"{objective} ({self._made})"), None, "3")
        steps = getattr(self, f"_{kind}")()
        return planned(steps, self._log, f"{kind} {self._made}")

    def _step(self, *needs: str, tool: str = "") -> Shaped:
        ms = self._chance.randint(SHORTEST, LONGEST)
        return Shaped(needs, tool or self._chance.choice(("work", "work", "rest", "bill")), ms)

    def _chain(self) -> dict[str, Shaped]:
        return {f"s{n}": self._step(*([f"s{n - 1}"] if n else [])) for n in range(self._chance.randint(2, 5))}

    def _fan(self) -> dict[str, Shaped]:
        leaves = [f"l{n}" for n in range(self._chance.randint(3, 6))]
        return {"root": self._step(), **{leaf: self._step("root") for leaf in leaves}, "all": self._step(*leaves)}

    def _diamond(self) -> dict[str, Shaped]:
        return {
            "a": self._step(),
            "b": self._step("a"),
            "c": self._step("a"),
            "d": self._step("b", "c"),
            "e": self._step("d", "a"),
        }

    def _billed(self) -> dict[str, Shaped]:
        return {f"s{n}": self._step(*([f"s{n - 1}"] if n else []), tool="bill") for n in range(3)}

    def _written(self) -> dict[str, Shaped]:
        return {"a": self._step(), "b": Shaped(("a",), "post", SHORTEST), "c": self._step("b")}


def turns(log: Path) -> tuple[Turn, ...]:
    """What the planner and the joiner of goals without a plan say."""
    text = json.dumps(str(log))
    first, second = f"1. work({text}, 100, [])", f"2. work({text}, 150, [$1])"
    third = f"3. bill({text}, 50, [$2])"
    done = tuple(Observation(id=str(n), status="ok", value=n) for n in (1, 2, 3))
    finish = "Thought: done.\nAction: Finish(3)"
    again = "Thought: one is missing.\nAction: Replan(the third is missing)"
    return (
        Turn(purpose="planner", goal=SUM, text=f"{first}\n{second}\n{third}\n4. join()", delay_s=0.2),
        Turn(purpose="joiner", goal=SUM, text=finish, expect_observations=done, delay_s=0.1),
        Turn(purpose="planner", goal=MEND, text=f"{first}\n{second}\n4. join()", delay_s=0.2),
        Turn(purpose="joiner", goal=MEND, text=again, expect_observations=done[:2], delay_s=0.1),
        Turn(purpose="planner", goal=MEND, round=2, text=f"{third}\n5. join()", delay_s=0.2),
        Turn(purpose="joiner", goal=MEND, round=2, text=finish, expect_observations=done, delay_s=0.1),
    )
