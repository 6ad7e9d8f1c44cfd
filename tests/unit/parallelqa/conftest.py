"""The ParallelQA example, imported as its files import each other."""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fleet.llm.port import Message, ModelRequest
from fleet.tools.context import ToolContext
from fleet.tools.registry import Registry
from fleet.tools.tool import Tool, ToolFailed

EXAMPLE = Path(__file__).parents[3] / "examples" / "parallelqa"
sys.path.insert(0, str(EXAMPLE))

from reference import Call, Observed  # noqa: E402

Args = dict[str, Any]
Spoil = Callable[[Call, Args, Mapping[str, Any]], Args]


class Runner:
    """Carries plans out through the registered tools, one call at a time, as an engine would resolve them.

    spoil(call, resolved arguments, values so far) may give other arguments, to plant a fault.
    """

    def __init__(self, tools: Registry) -> None:
        self.tools = tools

    def run(
        self,
        calls: Sequence[Call],
        labels: Mapping[str, str],
        earlier: Mapping[str, Any] = {},
        spoil: Spoil = lambda call, args, values: args,
    ) -> list[Observed]:
        values = dict(earlier)
        seen: list[Observed] = []
        for call in calls:
            shown: Observed = {"id": call.id, "call": call.text}
            missing = [each for each in _mentioned(call.args) if each not in values]
            if missing:
                seen.append(shown | {"status": "skipped", "because": missing})
                continue
            tool = self.tools.get(call.tool)
            args = spoil(call, _named(tool, call, values), values)
            try:
                values[call.id] = self.call(call.tool, args, ToolContext(step=call.id, labels=labels))
                seen.append(shown | {"status": "ok", "value": values[call.id]})
            except ToolFailed as failed:
                seen.append(shown | {"status": "error", "type": failed.failure.type, "message": failed.failure.message})
        return seen

    def call(self, name: str, args: Args, ctx: ToolContext | None = None) -> Any:
        tool = self.tools.get(name)

        async def call() -> Any:
            return await tool.call(tool.prepare(args), ctx or ToolContext())

        return asyncio.run(call())


def _named(tool: Tool, call: Call, values: Mapping[str, Any]) -> Args:
    names = list(tool.spec.parameters["properties"])
    args = dict(zip(names, call.args, strict=True))
    return {
        name: {"expression": arg, "variables": {f"${each}": values[each] for each in _mentioned([arg])}}
        if name in tool.spec.expressions
        else _resolved(arg, values)
        for name, arg in args.items()
    }


def _resolved(arg: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(arg, list):
        return [_resolved(each, values) for each in arg]
    return values[arg[1:]] if isinstance(arg, str) and arg[:1] == "$" else arg


def _mentioned(args: Any) -> list[str]:
    return list(dict.fromkeys(re.findall(r"\$(\d+)", json.dumps(args))))


@pytest.fixture(scope="session")
def runner() -> Runner:
    return Runner(Registry.load([str(EXAMPLE / "tools.py")], builtins=False))


@pytest.fixture
def prompt() -> Callable[..., ModelRequest]:
    """prompt(purpose, objective, *blocks of observations, reason): as the engine asks planner, joiner or step."""

    def made(purpose: Any, objective: str, *blocks: Sequence[Observed], reason: str = "") -> ModelRequest:
        lines = [f"Goal: {objective}"]
        for block in blocks:
            shown = (json.dumps(seen, ensure_ascii=False).replace("</", "<\\/") for seen in block)
            lines += ["<observations>", *shown, "</observations>"]
        text = "\n".join([*lines, reason])
        return ModelRequest(purpose=purpose, messages=(Message(role="user", text=text),))

    return made
