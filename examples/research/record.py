"""Writes turns.jsonl, the recorded turns of the planner and the joiner.

    python examples/research/record.py            after a change of plan.txt, answer.txt, the corpus or a tool
    python examples/research/record.py --check    exit code 1 where turns.jsonl is out of date

plan.txt and answer.txt are what the two turns say. What the joiner has to see before it may say so is found here, by
carrying the plan out with the real tools, one call after another in one process: the fleet has to come to the same.
"""

import argparse
import asyncio
import inspect
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from job import HERE, TOOLS, TURNS, goal

from fleet.core.budget import Usage
from fleet.core.ids import StepId
from fleet.core.outcome import Outcome, Status
from fleet.core.plan import Plan, Step
from fleet.core.tool import ToolSpec
from fleet.llm.port import Message
from fleet.llm.turns import Observation, Turn, read_turns, write_turns
from fleet.planning.compile import LineCompiler
from fleet.planning.grammar import PlanParser
from fleet.planning.observations import Round, read_observations, render_rounds
from fleet.planning.prompts import joiner_messages, planner_messages
from fleet.planning.references import resolve
from fleet.tools.context import ToolContext
from fleet.tools.registry import Registry

PLANNER_SECONDS = 4.0
JOINER_SECONDS = 2.5
CHARACTERS_A_TOKEN = 4
DOLLARS_A_MILLION_IN = 2.0
DOLLARS_A_MILLION_OUT = 10.0


def turns() -> tuple[Turn, Turn]:
    """The planner's turn and the joiner's. Raises ValueError where the plan does not compile."""
    registry = Registry.load([str(TOOLS)])
    specs = {spec.name: spec for spec in registry.specs()}
    said, answer = (HERE / "plan.txt").read_text(), (HERE / "answer.txt").read_text()
    done = Round(plan=(plan := _compiled(said, specs)), outcomes=_carried_out(plan, registry))
    wanted = goal()
    planner = Turn(
        purpose="planner",
        goal=wanted.objective,
        text=said,
        delay_s=PLANNER_SECONDS,
        usage=_usage(planner_messages(wanted, registry.specs(wanted.tools), 1), said),
    )
    joiner = Turn(
        purpose="joiner",
        goal=wanted.objective,
        text=answer,
        delay_s=JOINER_SECONDS,
        usage=_usage(joiner_messages(wanted, [done]), answer),
        expect_observations=tuple(map(_observation, read_observations(render_rounds([done]))[0])),
    )
    return planner, joiner


def _compiled(text: str, specs: Mapping[str, ToolSpec]) -> Plan:
    parser, compiler = PlanParser(), LineCompiler(specs)
    steps = [line for raw in (*parser.feed(text), *parser.close()) if isinstance(line := compiler.line(raw), Step)]
    plan = compiler.finish(1, text, steps)
    if not isinstance(plan, Plan):
        raise ValueError("; ".join(map(str, plan)))
    return plan


def _carried_out(plan: Plan, registry: Registry) -> dict[StepId, Outcome]:
    outcomes: dict[StepId, Outcome] = {}
    for step in plan.steps:
        tool = registry.get(step.tool)
        found = tool.call(tool.prepare(resolve(step, lambda step_id: outcomes[step_id].value)), ToolContext())
        outcomes[step.id] = Outcome(
            status=Status.SUCCEEDED, value=asyncio.run(_awaited(found)) if inspect.isawaitable(found) else found
        )
    return outcomes


async def _awaited(found: Any) -> Any:
    return await found


def _observation(line: Mapping[str, Any]) -> Observation:
    return Observation(id=line["id"], status=line["status"], value=line["value"], call=line["call"])


def _usage(messages: Sequence[Message], said: str) -> Usage:
    """What such a turn uses, about: by the length of prompt and reply, at the prices above."""
    asked = sum(len(message.text) for message in messages) // CHARACTERS_A_TOKEN
    replied = len(said) // CHARACTERS_A_TOKEN
    money = (asked * DOLLARS_A_MILLION_IN + replied * DOLLARS_A_MILLION_OUT) / 1e6
    return Usage(calls=1, input_tokens=asked, output_tokens=replied, money=round(money, 6))


def main() -> int:
    """Gives the exit code."""
    parser = argparse.ArgumentParser(description="Write the recorded turns of the research job.")
    parser.add_argument("--check", action="store_true", help="only tell whether they are up to date")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FLEET_DATA"] = folder
        fresh = turns()
    if not check:
        write_turns(TURNS, fresh)
        return 0
    if TURNS.exists() and read_turns(TURNS) == fresh:
        return 0
    path = Path(__file__).relative_to(HERE.parent.parent)
    sys.stderr.write(f"{TURNS.name} is out of date: run `python {path}`\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
