"""A plan carried out one call at a time, to know what a fleet must find. Shares no code with tools or engine."""

import ast
import difflib
import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"

OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
FUNCTIONS = {"max": max, "min": min, "abs": abs, "avg": lambda *values: sum(values) / len(values)}

Observed = dict[str, Any]
"""id, status, call, and value, or type and message, or because: a line of a joiner's prompt."""


class Refused(Exception):
    """An error of a tool. args: type, message."""


@dataclass(frozen=True)
class Call:
    """A line of a plan. text: the call as written, without its id."""

    id: str
    tool: str
    args: tuple[Any, ...]
    text: str


def records(name: str) -> list[dict[str, Any]]:
    """The records of a file of the data set, such as `golden.jsonl`."""
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def parse(plan: str) -> list[Call]:
    """The calls of a plan, without its join. Raises ValueError and SyntaxError."""
    calls = []
    for line in plan.split("\n"):
        number, text = line.split(". ", 1)
        call = ast.parse(text, mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError(f"not a call: {line}")
        calls.append(Call(number, call.func.id, tuple(map(ast.literal_eval, call.args)), text))
    if calls.pop().tool != "join":
        raise ValueError("the plan does not end in join()")
    return calls


class Reference:
    """The articles and attributes, and the four tools on them."""

    def __init__(self) -> None:
        self.articles: dict[str, str] = {}
        self.titles: dict[str, str] = {}
        for title, fact in json.loads((DATA / "facts.json").read_text(encoding="utf-8")).items():
            for name in [title, *fact["aliases"]]:
                self.articles[_folded(name)] = fact["text"]
                self.titles[_folded(name)] = title
        self.attributes = json.loads((DATA / "attributes.json").read_text(encoding="utf-8"))

    def carry_out(
        self, calls: Sequence[Call], earlier: Mapping[str, Any] = {}, faults: Sequence[Mapping[str, Any]] = ()
    ) -> list[Observed]:
        """What each call comes to, in the order of the plan. earlier: values of finished calls, by id."""
        values = dict(earlier)
        observed: list[Observed] = []
        for call in calls:
            seen: Observed = {"id": call.id, "call": call.text}
            missing = [number for number in _references(call) if number not in values]
            try:
                if missing:
                    seen |= {"status": "skipped", "because": missing}
                else:
                    values[call.id] = self._run(call, values, faults)
                    seen |= {"status": "ok", "value": values[call.id]}
            except Refused as refused:
                seen |= {"status": "error", "type": refused.args[0], "message": refused.args[1]}
            observed.append(seen)
        return observed

    def _run(self, call: Call, values: Mapping[str, Any], faults: Sequence[Mapping[str, Any]]) -> Any:
        for fault in faults:
            if (fault["tool"], fault["args"]) == (call.tool, list(call.args)):
                raise Refused(fault["error"]["type"], fault["error"]["message"])
        if call.tool == "calc":
            return _calculated(call.args[0], values)
        args = [_resolved(arg, values) for arg in call.args]
        return {"search": self.search, "extract": self.extract, "pick": _picked}[call.tool](*args)

    def search(self, query: str) -> str:
        if _folded(query) in self.articles:
            return self.articles[_folded(query)]
        close = difflib.get_close_matches(_folded(query), sorted(self.articles), n=1, cutoff=0.8)
        hint = "".join(f' Did you mean "{self.titles[name]}"?' for name in close)
        raise Refused("not_found", f'no article named "{query}".{hint}')

    def extract(self, text: str, attribute: str) -> float:
        if attribute not in self.attributes:
            raise Refused("unknown_attribute", f'"{attribute}" is not one of {", ".join(sorted(self.attributes))}')
        before, after = self.attributes[attribute]["cue"].split("{number}")
        found = []
        for piece in text.split(before)[1:]:
            digits = piece[: len(piece) - len(piece.lstrip("0123456789,."))]
            if digits and piece[len(digits) :].startswith(after):
                found.append(digits.replace(",", ""))
        if len(found) == 1:
            return float(found[0]) if "." in found[0] else int(found[0])
        if found:
            raise Refused("attribute_ambiguous", f'the text states "{attribute}" {len(found)} times')
        raise Refused("attribute_missing", f'the text does not state "{attribute}"')


def _folded(name: str) -> str:
    words = name.casefold().replace("\N{EN DASH}", "-").split()
    return " ".join(words[1:] if words[:1] == ["the"] and len(words) > 1 else words)


def _references(call: Call) -> list[str]:
    """The ids that a call refers to, each once, in order of mention."""
    pieces = json.dumps(call.args).split("$")[1:]
    return list(dict.fromkeys(piece[: len(piece) - len(piece.lstrip("0123456789"))] for piece in pieces))


def _resolved(arg: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(arg, list):
        return [_resolved(each, values) for each in arg]
    return values[arg[1:]] if isinstance(arg, str) and arg.startswith("$") else arg


def _calculated(expression: str, values: Mapping[str, Any]) -> float:
    tree = ast.parse(expression.replace("$", "_"), mode="eval").body
    try:
        result = float(f"{_worth(tree, values):.10g}")
    except ZeroDivisionError:
        raise Refused("division_by_zero", expression) from None
    return int(result) if result.is_integer() and abs(result) < 1e15 else result


def _worth(tree: ast.expr, values: Mapping[str, Any]) -> float:
    match tree:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return float(values[name.removeprefix("_")])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_worth(operand, values)
        case ast.BinOp(left=left, op=op, right=right):
            return float(OPERATORS[type(op)](_worth(left, values), _worth(right, values)))  # type: ignore[index]
        case ast.Call(func=ast.Name(id=name), args=args):
            return float(FUNCTIONS[name](*(_worth(arg, values) for arg in args)))  # type: ignore[operator]
    raise Refused("bad_expression", ast.unparse(tree))


def _picked(mode: str, labels: Sequence[str], values: Sequence[float]) -> str:
    ranked = sorted(range(len(values)), key=lambda place: values[place], reverse=mode == "max")
    return labels[ranked[0]]
