"""Options that several commands share, and how their words are read."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fleet.errors import BadInput

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The fleet's data folder (FLEET_DATA).")]
Parameters = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the plan file. May be repeated.")
]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="FIELD=VALUE",
        help='A field of the goal: priority=9, tenant=acme, key=abc, budget.tokens=5000, \'criteria=["a", "b"]\'.',
    ),
]
GoalArgument = Annotated[str, typer.Argument(metavar="GOAL", help="The goal's id.")]
Timeout = Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="How long to wait at most.")]


def parameters(words: list[str] | None) -> dict[str, Any]:
    """`name=value` pairs; a value that is JSON is taken as JSON, any other as text. Raises BadInput."""
    return {name: _json_or_text(value) for name, value in _pairs(words, "--set")}


def fields(words: list[str] | None) -> dict[str, Any]:
    """`field=value` pairs as nested dicts: `budget.tokens=5` is {"budget": {"tokens": "5"}}. Raises BadInput."""
    found: dict[str, Any] = {}
    for name, value in _pairs(words, "--with"):
        *path, last = name.split(".")
        at = found
        for part in path:
            at = at.setdefault(part, {})
            if not isinstance(at, dict):
                raise BadInput(f"--with {name}: {part} was given a value already")
        at[last] = _json_or_text(value) if value[:1] in ("[", "{") else value
    return found


def _pairs(words: list[str] | None, option: str) -> list[tuple[str, str]]:
    pairs = []
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise BadInput(f"{option} {word!r} is not NAME=VALUE")
        pairs.append((name.strip(), value))
    return pairs


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value
