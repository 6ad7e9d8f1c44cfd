"""Line pass: positional arguments get names, and every argument is known, given once and of the right type."""

from collections.abc import Mapping, Sequence

from fleet.core.plan import Hole, Problem
from fleet.core.tool import ToolSpec
from fleet.core.value import Json
from fleet.planning.lines import RawCall
from fleet.planning.schema import mistakes


def named(raw: RawCall, spec: ToolSpec) -> tuple[dict[str, Json], list[Problem]]:
    """The arguments by name, in the order of the tool's parameters, and what is wrong with their names."""
    names = list(spec.parameters.get("properties", {}))
    found: list[Problem] = []
    if len(raw.args) > len(names):
        found.append(_problem(raw, "too_many_arguments", f"{_takes(spec)}; {len(raw.args)} were given"))
    given = dict(zip(names, raw.args, strict=False))
    twice = [name for name in raw.kwargs if name in given]
    if twice:
        found.append(_problem(raw, "argument_twice", f"{_list(twice)} is given by place and by name: give it once"))
    given.update(raw.kwargs)
    unknown = [name for name in given if name not in names]
    if unknown and not spec.parameters.get("additionalProperties", False):
        found.append(_problem(raw, "unknown_argument", f"{_takes(spec)}; it has no {_list(unknown)}"))
    missing = [name for name in spec.parameters.get("required", ()) if name not in given]
    if missing:
        found.append(_problem(raw, "missing_argument", f"{_takes(spec)}; {_list(missing)} is missing"))
    return {name: given[name] for name in [*(n for n in names if n in given), *unknown]}, found


def typed(raw: RawCall, args: Mapping[str, Json], holes: Sequence[Hole], spec: ToolSpec) -> list[Problem]:
    """What does not fit the tool's schema. The place of a reference fits any type: its value is not known yet."""
    properties = spec.parameters.get("properties", {})
    free = {hole.at for hole in holes}
    return [
        _problem(raw, "bad_argument", f"{raw.tool}: {wrong}")
        for name, value in args.items()
        for wrong in mistakes(value, properties.get(name, {}), (name,), free, spec.parameters)
    ]


def _takes(spec: ToolSpec) -> str:
    names = list(spec.parameters.get("properties", {}))
    return f"{spec.name} takes {', '.join(names)}" if names else f"{spec.name} takes no arguments"


def _list(names: Sequence[str]) -> str:
    return ", ".join(f'"{name[:80]}"' for name in names[:10])


def _problem(raw: RawCall, code: str, message: str) -> Problem:
    return Problem(code=code, message=message, step=raw.id, line=raw.line)
