"""calc and pick: the contract that plans rely on."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.core.outcome import FailureClass
from fleet.tools.builtin.calc import calc
from fleet.tools.builtin.pick import pick
from fleet.tools.context import ToolContext
from fleet.tools.expression import Expression
from fleet.tools.tool import Tool, ToolFailed


def run(tool: Tool, **args: Any) -> Any:
    return tool.call(tool.prepare(args), ToolContext())


def computed(text: str, **variables: Any) -> Any:
    return run(calc, expression={"expression": text, "variables": {f"${k[1:]}": v for k, v in variables.items()}})


def failure(text: str, **variables: Any) -> str:
    with pytest.raises(ToolFailed) as failed:
        computed(text, **variables)
    return failed.value.failure.type


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * -3", -9),
        ("7 - 2 - 1", 4),
        ("8 / 4 / 2", 1),
        ("0.1 + 0.2", 0.3),
        ("1 / 3", 0.3333333333),
        ("2 ** 10", 1024),
        ("2 ** 0.5", 1.414213562),
        ("max(3)", 3),
        ("max(1, 5, 2) - min(4, 2)", 3),
        ("avg(1, 2, 4)", 2.333333333),
        ("abs(-2.5)", 2.5),
        ("round(2.567, 2)", 2.57),
        ("sqrt(16)", 4),
        ("1\n+ 2", 3),
        ("999999999999999 + 0", 1e15),
        ("123456789 * 1", 123456789),
    ],
)
def test_arithmetic_is_that_of_ieee_doubles_with_ten_digits(text: str, value: float) -> None:
    result = computed(text)
    assert result == value
    assert type(result) is (int if float(value).is_integer() and abs(value) < 1e15 else float)


def test_variables_are_bound_and_never_pasted() -> None:
    """R12: a negative value can't change the meaning of an expression."""
    assert computed("$1 ** 2", _1=-3) == 9
    assert computed("10 - $1", _1=-3) == 13
    assert computed("$1 + $12", _1=1, _12=100) == 101
    named = {"expression": "${3.rows.0} * 2", "variables": {"${3.rows.0}": 4}}
    assert run(calc, expression=named) == 8


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "two",
        "1, 2",
        "[1, 2]",
        "'a' * 9",
        "True + 1",
        "1 < 2",
        "1 if 1 else 2",
        "x := 3",
        "1j",
        "(1).real",
        "__import__('os')",
        "max()",
        "max(a=1)",
        "round(1, 2, 3)",
        "floor(2)",
        "sqrt(-1)",
        "(-8) ** 0.5",
        "9 ** 999",
        "2 ** 5000",
        "1e400",
        "1" + "0" * 400,
        "$1",
        "$ + 1",
        "1\0",
        "(" * 300 + "1" + ")" * 300,
        "1+" * 999 + "1",
        "1" * 2001,
    ],
)
def test_what_is_no_arithmetic_is_refused(text: str) -> None:
    """R38: an expression computes numbers and does nothing else."""
    assert failure(text) == "bad_expression"


@pytest.mark.parametrize("value", ["12", True, None, [1], {"a": 1}, 10**400, math.inf, math.nan])
def test_a_variable_that_is_no_number_is_refused(value: Any) -> None:
    assert failure("$1 + 1", _1=value) == "bad_expression"


@pytest.mark.parametrize("text", ["1 / 0", "0 ** -1", "1 / (2 - 2)"])
def test_division_by_zero_has_a_type_of_its_own(text: str) -> None:
    assert failure(text) == "division_by_zero"


def test_a_name_for_a_variable_cannot_be_guessed() -> None:
    assert failure("v0 + $1", _1=1) == "bad_expression"
    assert failure("max$1", _1=1) == "bad_expression"


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_a_difference_of_variables_is_the_difference_of_their_values(a: float, b: float) -> None:
    assert calc(Expression("$1 - $2", {"$1": a, "$2": b})) == float(f"{a - b:.10g}")


def test_the_label_of_the_largest_or_smallest_value_is_picked() -> None:
    assert run(pick, mode="max", labels=["a", "b", "c"], values=[1, 3, 3.0]) == "b"
    assert run(pick, mode="min", labels=["a", "b", "c"], values=[1, -3, 2]) == "b"


@pytest.mark.parametrize(
    "args",
    [
        {"mode": "mid", "labels": ["a", "b"], "values": [1, 2]},
        {"mode": "max", "labels": ["a", "b"], "values": [1, 2, 3]},
        {"mode": "max", "labels": ["a"], "values": [1]},
        {"mode": "max", "labels": ["a", "b"], "values": [1, "2"]},
        {"mode": "max", "labels": ["a", "b"], "values": [1, True]},
        {"mode": "max", "labels": ["a", "b"], "values": [1, math.nan]},
        {"mode": "max", "labels": ["a", 2], "values": [1, 2]},
    ],
)
def test_pick_refuses_what_it_cannot_compare(args: dict[str, Any]) -> None:
    """R30: misuse goes back to the model."""
    with pytest.raises(ToolFailed) as failed:
        run(pick, **args)
    assert failed.value.failure.type == "bad_argument"
    assert failed.value.failure.cls is FailureClass.MISUSE
