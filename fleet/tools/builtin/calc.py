"""calc: arithmetic on numbers and on the numbers that earlier steps gave."""

import ast
import functools
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from fleet.core.outcome import FailureClass
from fleet.core.value import Json
from fleet.tools.decorator import tool
from fleet.tools.expression import Expression
from fleet.tools.tool import ToolFailed

LARGEST_EXPONENT = 1000.0
WHOLE_BELOW = 1e15
LONGEST = 2000

Number = Callable[..., float]


@tool(effect="pure", seconds=0.01, timeout=10)
def calc(expression: Expression) -> float:
    """Compute an expression: numbers, + - * / **, parentheses, min max avg abs round sqrt; $3 is the number of step 3.

    IEEE double arithmetic; the result alone is rounded to 10 significant digits, and is an integer when it is whole and
    smaller than 1e15. Raises ToolFailed: bad_expression, division_by_zero.
    """
    text, names = _bound(expression.text, expression.variables)
    try:
        result = _evaluated(text, names)
    except ZeroDivisionError:
        raise ToolFailed("division_by_zero", f"division by zero in {_shown(expression.text)}") from None
    except OverflowError:
        raise _bad("the result is too large", expression.text) from None
    except (SyntaxError, RecursionError, MemoryError):
        raise _bad("it is not an arithmetic expression", expression.text) from None
    except (ValueError, TypeError) as wrong:
        raise _bad(str(wrong), expression.text) from None
    if not math.isfinite(result):
        raise _bad("the result is too large", expression.text)
    rounded = float(f"{result:.10g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < WHOLE_BELOW else rounded


def _bound(text: str, variables: Mapping[str, Json]) -> tuple[str, dict[str, float]]:
    """The text with each variable replaced by a name that it does not hold otherwise, and the names' values."""
    if len(text) > LONGEST:
        raise _bad(f"it has more than {LONGEST} characters", text)
    stem = "v"
    while stem in text:
        stem += "v"
    names = {key: f"{stem}{n}" for n, key in enumerate(variables)}
    written = "|".join(re.escape(key) for key in sorted(names, key=len, reverse=True))
    replaced = re.sub(rf"(?:{written})(?!\w)", lambda m: f" {names[m[0]]} ", text) if names else text
    if unbound := re.search(r"\$(?:\{[^}]*\}|\w*)", replaced):
        raise _bad(f"{unbound[0]} stands for nothing", text)
    for key, value in variables.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise _bad(f"{key} is not a number but {_kind(value)}; `extract` finds numbers in text", text)
    try:
        return replaced, {names[key]: float(value) for key, value in variables.items()}
    except OverflowError:
        raise _bad("a variable's number is too large", text) from None


def _evaluated(text: str, names: dict[str, float]) -> float:
    import simpleeval  # type: ignore[import-untyped]  # noqa: PLC0415 - only a call needs it

    evaluator = simpleeval.SimpleEval(operators=OPERATORS, functions=dict(FUNCTIONS), names=names)
    kept = (ast.Name, ast.UnaryOp, ast.BinOp, ast.Call, ast.Constant)
    evaluator.nodes = {kind: handler for kind, handler in evaluator.nodes.items() if kind in kept}
    try:
        return _number(evaluator.eval(text, previously_parsed=ast.parse(" ".join(text.split()), mode="eval").body))
    except simpleeval.FunctionNotDefined as unknown:
        raise ValueError(f"there is no function {unknown.func_name}; there are {', '.join(FUNCTIONS)}") from None
    except simpleeval.NameNotDefined as unknown:
        raise ValueError(f"{unknown.name} stands for nothing") from None
    except simpleeval.InvalidExpression:
        raise ValueError("only numbers, + - * / **, parentheses and functions are allowed") from None


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("only numbers, + - * / **, parentheses and functions are allowed")
    return float(value)


def _on_numbers(function: Number) -> Number:
    """The function on IEEE doubles alone: no text that grows, no integer without end."""

    @functools.wraps(function)
    def checked(*values: Any) -> float:
        return function(*map(_number, values))

    return checked


def _power(base: float, exponent: float) -> float:
    if abs(exponent) > LARGEST_EXPONENT:
        raise ValueError(f"an exponent is beyond {LARGEST_EXPONENT:.0f}")
    return _number(base**exponent)


def _average(first: float, *others: float) -> float:
    return math.fsum((first, *others)) / (1 + len(others))


def _round(value: float, digits: float = 0.0) -> float:
    return round(value, int(digits))


def _kind(value: Json) -> str:
    return {str: "text", list: "a list", dict: "an object", type(None): "nothing"}.get(type(value), "something else")


def _shown(text: str) -> str:
    return f'"{text[:80]}"'


def _bad(why: str, text: str) -> ToolFailed:
    return ToolFailed("bad_expression", f"{_shown(text)} can't be computed: {why}", FailureClass.MISUSE)


OPERATORS: Mapping[type[ast.AST], Number] = {
    ast.Add: _on_numbers(operator.add),
    ast.Sub: _on_numbers(operator.sub),
    ast.Mult: _on_numbers(operator.mul),
    ast.Div: _on_numbers(operator.truediv),
    ast.Pow: _on_numbers(_power),
    ast.USub: _on_numbers(operator.neg),
    ast.UAdd: _on_numbers(operator.pos),
}
FUNCTIONS: Mapping[str, Number] = {
    "min": _on_numbers(lambda *values: min(values)),
    "max": _on_numbers(lambda *values: max(values)),
    "avg": _on_numbers(_average),
    "abs": _on_numbers(abs),
    "round": _on_numbers(_round),
    "sqrt": _on_numbers(math.sqrt),
}
