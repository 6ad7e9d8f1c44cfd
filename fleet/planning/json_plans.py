"""Plans as JSON: the schema a model is held to, and readers of a whole object or of a stream of it."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fleet.core.ids import StepId
from fleet.core.plan import All, AnyOf, JoinPolicy, Problem, Settled
from fleet.core.tool import ToolSpec
from fleet.core.value import Json
from fleet.planning.lines import Garbled, RawCall, RawJoin, RawLine

JSON_PLAN_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"thought": {"type": "string"}, "steps": {"type": "array", "items": {}}},
    "required": ["steps"],
    "additionalProperties": False,
}
"""The frame of a JSON plan; plan_schema fills in what a step may be."""

_REFERENCE = {"type": "string", "pattern": r"^\$(\{.+\}|[A-Za-z0-9_-]+)$", "description": "a reference such as $3"}
_WORDS: dict[str, JoinPolicy] = {"all": All(), "any": AnyOf(), "settled": Settled()}
_POLICY: TypeAdapter[JoinPolicy] = TypeAdapter(JoinPolicy)
_NUMBERED = {"quorum": "k", "best_effort": "within"}
_FIELDS = frozenset({"id", "tool", "args", "needs", "join", "timeout", "note"})
_SECONDS: TypeAdapter[float] = TypeAdapter(float)


class NotAStep(Exception):
    """An object is not a step. The message says what to write instead."""


def plan_schema(specs: Mapping[str, ToolSpec]) -> dict[str, Json]:
    """The JSON schema of a plan over these tools: one alternative a tool, in which every value may be a reference."""
    defs: dict[str, Json] = {}
    steps = [_step_schema(spec, defs) for _, spec in sorted(specs.items())]
    properties = {**JSON_PLAN_SCHEMA["properties"], "steps": {"type": "array", "items": {"anyOf": steps}}}
    schema = {**JSON_PLAN_SCHEMA, "properties": properties}
    return {**schema, "$defs": defs} if defs else schema


def steps_from_json(plan: Json) -> tuple[RawLine, ...]:
    """The lines of a whole JSON plan: {"steps": [...]} or the list alone. Steps may stand in any order.

    An object that is no step comes out Garbled. The join is implied by the end of the list.
    """
    steps = plan.get("steps") if isinstance(plan, Mapping) else plan
    if not isinstance(steps, list):
        problem = Problem(
            code="unreadable", message='a JSON plan is {"steps": [{"id": ..., "tool": ..., "args": ...}]}'
        )
        return (Garbled(text=str(plan)[:1000], problem=problem),)
    return (*(line_of(step) for step in steps), RawJoin())


def line_of(step: Json, line: int | None = None) -> RawCall | Garbled:
    """The raw call that a mapping {id, tool, args, needs, join, timeout, note} says; Garbled where it says none."""
    try:
        return raw_call(step, line)
    except NotAStep as bad:
        known = str(step.get("id", "")) if isinstance(step, Mapping) else ""
        problem = Problem(code="unreadable", message=str(bad), step=known[:64], line=line)
        return Garbled(text=json.dumps(step, ensure_ascii=False, default=str)[:1000], problem=problem)


def raw_call(step: Json, line: int | None = None) -> RawCall:
    """As line_of. Raises NotAStep."""
    if not isinstance(step, Mapping):
        raise NotAStep('a step is an object: {"id": "1", "tool": "...", "args": {...}}')
    unknown = [str(name) for name in step if name not in _FIELDS]
    if unknown:
        raise NotAStep(f"a step has no field {', '.join(unknown)[:200]}; it has {', '.join(sorted(_FIELDS))}")
    args = step.get("args") or {}
    if not isinstance(args, Mapping | list):
        raise NotAStep("args must be an object of arguments by name, or a list of them in order")
    return RawCall(
        id=_id(step.get("id"), "id"),
        tool=_text(step, "tool"),
        args=tuple(args) if isinstance(args, list) else (),
        kwargs={str(name): value for name, value in args.items()} if isinstance(args, Mapping) else {},
        text=json.dumps(step, ensure_ascii=False, default=str)[:1000],
        line=line,
        needs=_needs(step.get("needs")),
        join=_policy(step.get("join", "all")),
        timeout=_timeout(step.get("timeout")),
        note=_text(step, "note") if step.get("note") is not None else "",
    )


def _id(value: Json, field: str) -> StepId:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise NotAStep(f'{field} must name a step, by a number or a word: "{field}": "1"')
    return StepId(str(value).removeprefix("$") if field == "needs" else str(value))


def _text(step: Mapping[str, Json], field: str) -> str:
    value = step.get(field)
    if not isinstance(value, str) or not value:
        raise NotAStep(f"{field} must be a text")
    return value


def _needs(value: Json) -> tuple[StepId, ...]:
    if value is None:
        return ()
    return tuple(_id(need, "needs") for need in (value if isinstance(value, list) else [value]))


def _policy(value: Json) -> JoinPolicy:
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if isinstance(value, Mapping) and len(value) == 1:
        ((kind, number),) = value.items()
        try:
            if kind in _NUMBERED:
                return _POLICY.validate_python({"kind": kind, _NUMBERED[kind]: number})
        except ValidationError:
            pass
    raise NotAStep("join must be all, any, settled, {quorum: <number of steps>} or {best_effort: <seconds>}")


def _timeout(value: Json) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise NotAStep("timeout must be a number of seconds above 0")
    return _SECONDS.validate_python(value)


def _step_schema(spec: ToolSpec, defs: dict[str, Json]) -> dict[str, Json]:
    prefix = f"{spec.name}."
    for name, schema in spec.parameters.get("$defs", {}).items():
        defs[prefix + name] = _open(schema, prefix)
    parameters = {key: value for key, value in spec.parameters.items() if key not in ("$defs", "title")}
    properties = {name: _open(schema, prefix) for name, schema in parameters.get("properties", {}).items()}
    args = {"additionalProperties": False, **parameters, "type": "object", "properties": properties}
    text = {"type": "string"}
    return {
        "type": "object",
        "description": spec.description,
        "properties": {
            "id": text,
            "tool": {"const": spec.name},
            "args": args,
            "needs": {"type": "array", "items": text},
        },
        "required": ["id", "tool", "args"],
        "additionalProperties": False,
    }


def _open(schema: Any, prefix: str) -> Any:
    """The schema with a reference let in wherever it asks for something else than plain text."""
    if not isinstance(schema, Mapping):
        return schema
    inner = {key: _inside(key, value, prefix) for key, value in schema.items()}
    plain = schema.get("type") == "string" and not {"enum", "const"} & set(schema)
    if plain or "anyOf" in inner or not schema:
        if "anyOf" in inner and _REFERENCE not in inner["anyOf"]:
            inner["anyOf"] = [*inner["anyOf"], _REFERENCE]
        return inner
    return {"anyOf": [inner, _REFERENCE]}


def _inside(key: str, value: Any, prefix: str) -> Any:
    if key == "$ref":
        return "#/$defs/" + prefix + str(value).rpartition("/")[2]
    if key == "properties":
        return {name: _open(schema, prefix) for name, schema in value.items()}
    if key in ("items", "additionalProperties"):
        return _open(value, prefix)
    if key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        return [_open(schema, prefix) for schema in value]
    return value
