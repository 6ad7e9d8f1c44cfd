"""The four tools of ParallelQA, offline: search, extract, calc and pick, by data/TOOLS.md.

Nothing needs to be set up: what a goal wants of them it says in its labels. `question` and `set` (golden, replan,
react) name the record, whose faults a replan goal meets; `scale` is the factor on the recorded latency of each call,
which is not waited for if there is none.
"""

import asyncio
import difflib
import functools
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from fleet.tools.context import ToolContext
from fleet.tools.decorator import tool
from fleet.tools.expression import Expression
from fleet.tools.tool import ToolFailed

DATA = Path(__file__).parent / "data"

NUMBER = r"\d[\d,]*(?:\.\d+)?"
TOKEN = re.compile(r"\s*(?:(?P<number>\d+\.?\d*|\.\d+)|(?P<variable>\$\d+)|(?P<name>[a-z]+)|(?P<sign>[-+*/(),]))")
FUNCTIONS: Mapping[str, Callable[[list[float]], float]] = {
    "max": max,
    "min": min,
    "avg": lambda values: sum(values) / len(values),
    "abs": lambda values: abs(values[0]),
}


@tool(effect="pure", seconds=0.61, timeout=60)
async def search(query: Annotated[str, "the exact name of one thing"], ctx: ToolContext) -> str:
    """Find the encyclopedia article of that name; gives its first paragraph."""
    await _recorded_latency(ctx)
    _fail_as_recorded("search", [query], ctx)
    names = _names()
    wanted = canonical(query)
    if wanted in names:
        return str(_facts()[names[wanted]]["text"])
    close = difflib.get_close_matches(wanted, sorted(names), n=1, cutoff=0.8)
    hint = f' Did you mean "{names[close[0]]}"?' if close else ""
    raise ToolFailed("not_found", f'no article named "{query}".{hint}')


@tool(effect="pure", seconds=1.17, timeout=60)
async def extract(
    text: Annotated[str, "an article"],
    attribute: Annotated[
        str, "one of area_km2, height_m, land_area_km2, length_km, max_depth_m, max_speed_kmh, population"
    ],
    ctx: ToolContext,
) -> float:
    """Read one number out of an article, in the unit that the attribute's name ends in."""
    await _recorded_latency(ctx)
    cues = _attributes()
    if attribute not in cues:
        raise ToolFailed("unknown_attribute", f'"{attribute}" is not one of {", ".join(sorted(cues))}')
    cue = re.escape(cues[attribute]["cue"]).replace(re.escape("{number}"), f"({NUMBER})")
    stated = re.findall(cue, text)
    if not stated:
        raise ToolFailed("attribute_missing", f'the text does not state "{attribute}"')
    if len(stated) > 1:
        raise ToolFailed("attribute_ambiguous", f'the text states "{attribute}" {len(stated)} times')
    digits = stated[0].replace(",", "")
    return float(digits) if "." in digits else int(digits)


@tool(effect="pure", seconds=1.17, timeout=60)
async def calc(
    expression: Annotated[Expression, "numbers, $n, + - * /, parentheses, max, min, avg, abs"], ctx: ToolContext
) -> float:
    """Compute an expression, in which $n is the number that step n gave."""
    await _recorded_latency(ctx)
    try:
        result = _Calculation(expression).value()
    except ZeroDivisionError:
        raise ToolFailed("division_by_zero", f'"{expression.text}" divides by zero') from None
    except (ValueError, OverflowError) as wrong:
        raise ToolFailed("bad_expression", f'"{expression.text}": {wrong}') from None
    rounded = float(f"{result:.10g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


@tool(effect="pure", seconds=1.17, timeout=60)
async def pick(
    mode: Annotated[Literal["max", "min"], "which value is looked for"],
    labels: Annotated[list[str], "names, in the order of the values"],
    values: Annotated[list[float], "one number for each label"],
    ctx: ToolContext,
) -> str:
    """Name the label whose value is the largest or the smallest."""
    await _recorded_latency(ctx)
    if len(labels) != len(values) or len(labels) < 2:
        raise ToolFailed("bad_argument", f"there are {len(labels)} labels and {len(values)} values")
    chosen = max if mode == "max" else min
    return labels[values.index(chosen(values))]


def canonical(name: str) -> str:
    """A name as it is compared: case-folded, one kind of hyphen, single blanks, without a leading `the`."""
    return " ".join(name.casefold().replace("\u2013", "-").split()).removeprefix("the ")


class _Calculation:
    """One expression on its way to a number: left to right, one method a level of precedence."""

    def __init__(self, expression: Expression) -> None:
        self._variables = expression.variables
        self._tokens = [*_tokens(expression.text), ("end", "")]
        self._at = 0

    def value(self) -> float:
        result = self._sum()
        if self._kind != "end":
            raise ValueError(f"{self._text!r} is not expected")
        return result

    @property
    def _kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def _text(self) -> str:
        return self._tokens[self._at][1]

    def _take(self) -> str:
        text = self._text
        self._at += 1
        return text

    def _expect(self, sign: str) -> None:
        if self._text != sign:
            raise ValueError(f"{sign!r} is missing")
        self._at += 1

    def _sum(self) -> float:
        result = self._product()
        while self._text in ("+", "-"):
            result = result + self._product() if self._take() == "+" else result - self._product()
        return result

    def _product(self) -> float:
        result = self._signed()
        while self._text in ("*", "/"):
            result = result * self._signed() if self._take() == "*" else result / self._signed()
        return result

    def _signed(self) -> float:
        minus = False
        while self._text == "-":
            self._at += 1
            minus = not minus
        return -self._atom() if minus else self._atom()

    def _atom(self) -> float:
        match self._kind:
            case "number":
                return float(self._take())
            case "variable":
                return self._variable(self._take())
            case "name":
                return self._function(self._take())
        self._expect("(")
        result = self._sum()
        self._expect(")")
        return result

    def _variable(self, name: str) -> float:
        value = self._variables.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name} is not a number")
        return float(value)

    def _function(self, name: str) -> float:
        if name not in FUNCTIONS:
            raise ValueError(f"there is no function {name}")
        self._expect("(")
        values = [self._sum()]
        while self._text == ",":
            self._at += 1
            values.append(self._sum())
        self._expect(")")
        if name == "abs" and len(values) > 1:
            raise ValueError("abs takes one number")
        return FUNCTIONS[name](values)


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        token = TOKEN.match(text, at)
        if token is None or token.lastgroup is None:
            raise ValueError(f"{text[at:].strip()[:20]!r} is not expected")
        found.append((token.lastgroup, token[token.lastgroup]))
        at = token.end()
    return found


async def _recorded_latency(ctx: ToolContext) -> None:
    """Take as long as the record says of this call. The step's id is its number in the plan or in the transcript."""
    scale = float(ctx.labels.get("scale") or 0)
    number = re.search(r"\d+$", ctx.step)
    if not scale or number is None:
        return
    table = _latency()["replan" if ctx.labels.get("set") == "replan" else "questions"]
    recorded = table.get(ctx.labels.get("question"), {}).get("call_s", {})
    await asyncio.sleep(scale * recorded.get(number[0], 0.0))


def _fail_as_recorded(name: str, args: list[str], ctx: ToolContext) -> None:
    if ctx.labels.get("set") != "replan":
        return
    for fault in _faults().get(ctx.labels.get("question", ""), ()):
        if fault["tool"] == name and fault["args"] == args:
            raise ToolFailed(fault["error"]["type"], fault["error"]["message"])


@functools.cache
def _facts() -> dict[str, dict[str, Any]]:
    return dict(_json("facts.json"))


@functools.cache
def _names() -> dict[str, str]:
    """Titles by the canonical form of every name of theirs."""
    return {canonical(name): title for title, fact in _facts().items() for name in (title, *fact["aliases"])}


@functools.cache
def _attributes() -> dict[str, dict[str, str]]:
    return dict(_json("attributes.json"))


@functools.cache
def _latency() -> dict[str, Any]:
    return dict(_json("latency.json"))


@functools.cache
def _faults() -> dict[str, list[dict[str, Any]]]:
    lines = (DATA / "replan.jsonl").read_text(encoding="utf-8").splitlines()
    return {record["id"]: record["faults"] for record in map(json.loads, lines)}


def _json(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))
