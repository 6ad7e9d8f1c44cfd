"""The messages that planner and joiner are asked with. Their texts are the files in prompts/."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from fleet.core.goal import Goal
from fleet.core.plan import Problem
from fleet.core.tool import ToolSpec
from fleet.core.value import Json
from fleet.llm.port import Message
from fleet.planning.observations import Round, render_rounds, safe_json

__all__ = [
    "BadPrompt",
    "Round",
    "fill",
    "joiner_messages",
    "planner_messages",
    "render_goal",
    "render_tools",
    "repair_messages",
    "replan_messages",
]

_PROBLEMS = 50
_FOLDER = Path(__file__).with_name("prompts")
_FIELD = re.compile(r"\{\{([a-z_]+)\}\}")


class BadPrompt(ValueError):
    """A prompt was filled with a field missing, or with one that it does not have."""


def fill(template: str, **fields: object) -> str:
    """The prompt of that name with every field put in once; what is put in is not searched for fields.

    Raises BadPrompt for a missing or an unknown field.
    """
    text = _read(template)
    wanted = set(_FIELD.findall(text))
    if wanted != set(fields):
        missing, unknown = sorted(wanted - set(fields)), sorted(set(fields) - wanted)
        raise BadPrompt(f"prompt {template}: missing fields {missing}, unknown fields {unknown}")
    return _FIELD.sub(lambda match: str(fields[match[1]]), text).strip() + "\n"


def planner_messages(goal: Goal, specs: Iterable[ToolSpec], first_id: int, examples: str = "") -> tuple[Message, ...]:
    """Ask for a goal's first plan. specs: the tools; those that the goal does not allow are left out."""
    return _planner(goal, specs, first_id, examples), Message(role="user", text=render_goal(goal))


def replan_messages(
    goal: Goal, specs: Sequence[ToolSpec], history: Sequence[Round], reason: str, first_id: int
) -> tuple[Message, ...]:
    """Ask for a further plan, history being all rounds so far, and reason what the joiner found missing."""
    past = fill("replan", history=render_rounds(history, specs), reason=safe_json(reason), first_id=first_id)
    return _planner(goal, specs, first_id, ""), Message(role="user", text=f"{render_goal(goal)}\n\n{past}")


def repair_messages(
    previous: Sequence[Message], text: str, problems: Sequence[Problem], template: str = "planner_repair"
) -> tuple[Message, ...]:
    """Ask again, after the reply `text` was refused for these problems. template: planner_repair or joiner_repair."""
    listed = "\n".join(f"- {problem}" for problem in problems[:_PROBLEMS])
    more = f"\n- and {len(problems) - _PROBLEMS} more" if len(problems) > _PROBLEMS else ""
    said = Message(role="assistant", text=text if text.strip() else "(nothing)")
    return (*previous, said, Message(role="user", text=fill(template, problems=listed + more)))


def joiner_messages(goal: Goal, rounds: Sequence[Round], specs: Iterable[ToolSpec] = ()) -> tuple[Message, ...]:
    """Ask for a verdict on a settled plan. rounds: all of the run, the last one being judged."""
    shown = f"{render_goal(goal)}\n\n{render_rounds(rounds, specs)}\n"
    return Message(role="system", text=fill("joiner")), Message(role="user", text=shown)


def render_goal(goal: Goal) -> str:
    """A goal for a model: objective, criteria, constraints, inputs."""
    parts = [f"Goal: {goal.objective}"]
    parts += [f"Success criterion: {criterion}" for criterion in goal.criteria]
    parts += [f"Constraint: {constraint}" for constraint in goal.constraints]
    parts += [f"Input {name}: {safe_json(value)}" for name, value in goal.inputs.items()]
    return "\n".join(part.replace("</", "<\\/").replace("<observations>", "<\\observations>") for part in parts)


def render_tools(specs: Iterable[ToolSpec]) -> str:
    """One line a tool: its call with the types of its parameters, what it does, and what it changes."""
    return "\n".join(_tool(spec) for spec in sorted(specs, key=lambda spec: spec.name))


def _planner(goal: Goal, specs: Iterable[ToolSpec], first_id: int, examples: str) -> Message:
    allowed = [spec for spec in specs if not goal.tools or spec.name in goal.tools]
    shown = f"\nExamples:\n{examples.strip()}\n" if examples.strip() else ""
    return Message(role="system", text=fill("planner", tools=render_tools(allowed), first_id=first_id, examples=shown))


def _tool(spec: ToolSpec) -> str:
    parameters = [_parameter(name, schema, spec) for name, schema in spec.parameters.get("properties", {}).items()]
    description = " ".join(spec.description.split())
    return f"- {spec.name}({', '.join(parameters)}) [{spec.effect}]: {description}"


def _parameter(name: str, schema: Json, spec: ToolSpec) -> str:
    kind = f"{_type(schema)} expression" if name in spec.expressions else _type(schema)
    return f"{name}: {kind}" if name in spec.parameters.get("required", ()) else f"{name}: {kind} = ..."


def _type(schema: Json) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if "enum" in schema or "const" in schema:
        return " | ".join(safe_json(choice) for choice in schema.get("enum", [schema.get("const")]))
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return " | ".join(dict.fromkeys(_type(option) for option in options))
    if schema.get("type") == "array" and "items" in schema:
        return f"list of {_type(schema['items'])}"
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    return str(schema.get("type", "any"))


@cache
def _read(template: str) -> str:
    return (_FOLDER / f"{template}.md").read_text(encoding="utf-8")
