"""The parameters of a procedure: `{{name}}` in a plan document, filled before it is compiled."""

import json
import re
from collections.abc import Iterable, Mapping

from fleet.core.value import Json, Value
from fleet.errors import BadInput
from fleet.planning.references import escape

_PLACE = re.compile(r"(?P<escape>\\\{\{)|\{\{\s*(?P<name>[A-Za-z_][A-Za-z0-9_-]*)\s*\}\}")
_OPEN = re.compile(r"(?<!\\)\$(\{[^{}]*|[A-Za-z0-9_-]+)\Z")
_NAME_START = re.compile(r"[A-Za-z0-9_{]")


class Parameter(Value):
    """A value that is given when a procedure is used. required: whether it must be, rather than be default."""

    default: Json = None
    description: str = ""
    required: bool = False


def bind(declared: Mapping[str, Parameter], given: Mapping[str, Json], source: str) -> dict[str, Json]:
    """A value for every declared parameter. Raises BadInput that names those unknown or missing."""
    unknown = sorted(set(given) - set(declared))
    if unknown:
        has = ", ".join(declared) or "none"
        raise BadInput(f"{source} has no parameter {', '.join(unknown)}; its parameters are: {has}")
    missing = [name for name, parameter in declared.items() if parameter.required and name not in given]
    if missing:
        raise BadInput(f"{source} needs a value for {', '.join(missing)}: give each one as a parameter")
    return {name: given.get(name, parameter.default) for name, parameter in declared.items()}


def substitute(value: Json, values: Mapping[str, Json], source: str, referring: bool) -> Json:
    """The value with each `{{name}}` filled in, by its type where it is a whole string, else as text.

    `\\{{` stands for two plain braces. referring: whether references are looked for in the result; a parameter's
    dollars are then escaped, so that it never refers to a step. Raises BadInput for a name that was not declared.
    """
    if isinstance(value, Mapping):
        return {key: substitute(item, values, source, referring) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, values, source, referring) for item in value]
    if not isinstance(value, str):
        return value
    whole = _PLACE.fullmatch(value)
    if whole and whole["name"]:
        found = _value(whole["name"], values, source)
        return _escaped(found) if referring else found
    return _text(value, values, source, referring)


def _text(text: str, values: Mapping[str, Json], source: str, referring: bool) -> str:
    pieces, last = [], 0
    for match in _PLACE.finditer(text):
        pieces.append((text[last : match.start()], False))
        last = match.end()
        if match["escape"]:
            pieces.append(("{{", False))
        else:
            found = _value(match["name"], values, source)
            filled = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, separators=(",", ":"))
            pieces.append((filled, True))
    pieces.append((text[last:], False))
    return _joined(pieces, source) if referring else "".join(piece for piece, _ in pieces)


def _joined(pieces: Iterable[tuple[str, bool]], source: str) -> str:
    """The pieces as one text, True marking those filled in. A dollar in or beside one of these stays a dollar."""
    out, foreign = "", False
    for piece, filled in pieces:
        if filled and (start := _OPEN.search(out)):
            out = _closed(out, start, source)
        if not piece:
            continue
        if out.endswith("$") and _NAME_START.match(piece) and (foreign or not out.endswith("\\$")):
            out = out[:-1] + "\\$"
        out += escape(piece) if filled else piece
        foreign = filled
    return out


def _closed(out: str, start: re.Match[str], source: str) -> str:
    if start[1].startswith("{"):
        raise BadInput(f"{source}: a parameter can't stand inside a reference (after `{start[0][:40]}`)")
    return f"{out[: start.start()]}\\{start[0]}"


def _value(name: str, values: Mapping[str, Json], source: str) -> Json:
    if name not in values:
        known = ", ".join(values) or "none"
        raise BadInput(
            f"{source} uses {{{{{name}}}}}, which is not declared (declared: {known}):"
            f" declare it under `parameters:`, or write \\{{{{ for plain braces"
        )
    return values[name]


def _escaped(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return escape(value) if isinstance(value, str) else value
