"""References: what is one, what is plain text, and what they resolve to."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.core.outcome import FailureClass
from fleet.core.plan import Ref, Step
from fleet.core.value import Json
from fleet.planning.finding import holes_of
from fleet.planning.references import (
    ReferenceFailed,
    escape,
    needs_of,
    rename_step,
    resolve,
    signature,
    written,
)


def step_of(args: dict[str, Json], expressions: frozenset[str] = frozenset(), earlier: str = "123") -> Step:
    found, holes, problems = holes_of(args, expressions, set(earlier))
    assert not problems
    return Step(id="9", tool="t", args=found, holes=holes, needs=needs_of(holes))


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("$3", Ref(step="3")),
        ("${3}", Ref(step="3")),
        ("${3.rows.0}", Ref(step="3", path=("rows", 0))),
        ("$sum", Ref(step="sum")),
        ("${unit-price.net}", Ref(step="unit-price", path=("net",))),
        ("${1.007}", Ref(step="1", path=("007",))),
    ],
)
def test_a_whole_string_can_be_a_reference(text: str, ref: Ref) -> None:
    """R12"""
    _, holes, problems = holes_of({"a": text, "b": [{"c": text}]}, frozenset(), ())
    assert not problems
    assert [(hole.at, hole.ref, hole.mode) for hole in holes] == [(("a",), ref, "value"), (("b", 0, "c"), ref, "value")]


@pytest.mark.parametrize(
    "text",
    ["$5 million", "$1.5", "$1,000", "about $1.5 billion", "$1 million", "$1bn", "$3k", "$2%", "US$ 1", "$", "a $7 b"],
)
def test_an_amount_of_dollars_is_text(text: str) -> None:
    """R12: `$5 million` is text, though steps 1 to 3 exist."""
    assert holes_of({"a": text}, frozenset(), {"1", "2", "3"}) == ({"a": text}, (), ())


@pytest.mark.parametrize("text", ["what is $3", "$1 and more", "see $3.", "$1, please", "($2)"])
def test_a_bare_reference_inside_a_longer_text_is_refused_with_both_ways_out(text: str) -> None:
    """R12"""
    _, holes, problems = holes_of({"a": text}, frozenset(), {"1", "2", "3"})
    assert not holes
    assert [problem.code for problem in problems] == ["ambiguous_reference"]
    assert "${" in problems[0].message
    assert "\\$" in problems[0].message


def test_an_escaped_dollar_loses_its_backslash_and_refers_to_nothing() -> None:
    """R12"""
    args, holes, problems = holes_of(
        {"a": r"\$5", "b": r"pay \${1} or \$2 now", "c": r"\$\d+"}, frozenset(), {"1", "2"}
    )
    assert args == {"a": "$5", "b": "pay ${1} or $2 now", "c": r"\$\d+"}
    assert not holes
    assert not problems


def test_several_references_inside_one_text_are_filled_as_text() -> None:
    """R12: `${1.field}` works, spans count after escapes are taken out."""
    step = step_of({"a": r"\$9: ${1.name} has ${2} of ${1.rows.0}; \$3!"})
    values: dict[str, Json] = {"1": {"name": "Ann", "rows": [{"k": [1, None]}]}, "2": 2.5}
    assert resolve(step, values.__getitem__) == {"a": '$9: Ann has 2.5 of {"k":[1,null]}; $3!'}


def test_values_keep_their_type_alone_and_nested() -> None:
    """R12"""
    step = step_of({"a": "$1", "b": ["$2", {"c": "${1.0}"}], "d": "plain"})
    values: dict[str, Json] = {"1": [True, None], "2": 7}
    assert resolve(step, values.__getitem__) == {"a": [True, None], "b": [7, {"c": True}], "d": "plain"}


def test_what_a_tool_returned_is_never_searched_for_references() -> None:
    """R12: an article with a dollar amount and with something that looks like a reference."""
    article = "It cost about $1.5 million. ${2} $2 \\$3"
    step = step_of({"whole": "$1", "inside": "Read: ${1} End ${2}", "list": ["$1"]})
    values = {"1": article, "2": "${1}"}
    assert resolve(step, values.__getitem__) == {
        "whole": article,
        "inside": f"Read: {article} End ${{1}}",
        "list": [article],
    }


def test_an_expression_keeps_its_text_and_binds_its_variables() -> None:
    """R12: a value is bound, not pasted, so it can't change what the expression means."""
    step = step_of({"e": "max($1, ${2.v}) - $1 * $x", "n": "1 + 1"}, frozenset({"e", "n"}))
    values: dict[str, Json] = {"1": -3, "2": {"v": 4}, "x": "7 + 7"}
    assert resolve(step, values.__getitem__) == {
        "e": {"expression": "max($1, ${2.v}) - $1 * $x", "variables": {"$1": -3, "${2.v}": 4, "$x": "7 + 7"}},
        "n": "1 + 1",
    }
    assert step.needs == ("1", "2", "x")


def test_a_whole_expression_that_is_one_reference_is_a_variable() -> None:
    step = step_of({"e": "$1"}, frozenset({"e"}))
    assert resolve(step, lambda step: 5) == {"e": {"expression": "$1", "variables": {"$1": 5}}}


@pytest.mark.parametrize("text", ["${1 + 2}", "x ${} y", "a ${.b}"])
def test_braces_that_hold_no_reference_are_refused(text: str) -> None:
    """R12"""
    assert [problem.code for problem in holes_of({"a": text}, frozenset(), ())[2]] == ["bad_reference"]


@pytest.mark.parametrize("path", ["rows.5", "nothing", "rows.0.deeper", "rows.name"])
def test_a_path_that_does_not_exist_is_a_permanent_failure(path: str) -> None:
    """R12, R18: it fails typed, no error text becomes a value."""
    step = step_of({"a": f"${{1.{path}}}"})
    with pytest.raises(ReferenceFailed) as failed:
        resolve(step, lambda step: {"rows": [1]})
    assert failed.value.failure.cls is FailureClass.PERMANENT
    assert failed.value.failure.type == "bad_reference"


def test_a_value_is_asked_for_once_however_often_it_is_used() -> None:
    asked: list[str] = []
    step = step_of({"a": "$1", "b": "x ${1} y ${1}"})
    resolve(step, asked.append)
    assert asked == ["1"]


def test_renaming_rewrites_text_holes_and_needs() -> None:
    """R15"""
    step = step_of({"a": "$1", "b": r"\$1 ${1.x} and ${2}", "e": "$1*${1.x}"}, frozenset({"e"}))
    led = rename_step(step, {"1": "107"})
    assert led.args == {"a": "$107", "b": "$1 ${107.x} and ${2}", "e": "$107*${107.x}"}
    assert led.needs == ("107", "2")
    values: dict[str, Json] = {"107": {"x": "!"}, "2": 2}
    assert resolve(led, values.__getitem__) == {
        "a": {"x": "!"},
        "b": "$1 ! and 2",
        "e": {"expression": "$107*${107.x}", "variables": {"$107": {"x": "!"}, "${107.x}": "!"}},
    }


def test_two_ways_to_write_one_reference_are_the_same_step() -> None:
    """R15"""
    assert signature(step_of({"a": "$1"})) == signature(step_of({"a": "${1}"}))
    assert signature(step_of({"a": "$1"})) != signature(step_of({"a": r"\$1"}))


texts = st.text(alphabet=st.sampled_from(list('ab $\\{}.,1234_-%k\n"é')), max_size=14)
literals = st.one_of(texts, st.integers(-5, 5), st.booleans(), st.none())
names = st.sampled_from(["1", "2", "sum", "a-b"])
ALL = {"1": "one $2", "2": {"k": [1.5, "${1}"]}, "sum": 3, "a-b": None}


@given(st.dictionaries(st.sampled_from("abc"), st.recursive(literals, lambda inner: st.lists(inner, max_size=3))))
def test_escaped_text_comes_back_as_it_was(args: dict[str, Json]) -> None:
    """R12: whatever a text holds, it can be written so that it is taken as text."""

    def escaped(value: Json) -> Json:
        if isinstance(value, list):
            return [escaped(item) for item in value]
        return escape(value) if isinstance(value, str) else value

    assert holes_of({key: escaped(value) for key, value in args.items()}, frozenset(), set(ALL)) == (args, (), ())


@given(st.lists(st.one_of(texts, names.map(lambda name: Ref(step=name))), min_size=1, max_size=6))
def test_text_with_references_resolves_to_its_parts_in_order(parts: list[str | Ref]) -> None:
    """R12: round trip through writing, finding and resolving, and writing again."""
    source = "x" + "".join("${" + part.step + "}" if isinstance(part, Ref) else escape(part + ".") for part in parts)
    args, holes, problems = holes_of({"a": source}, frozenset(), set(ALL))
    assert not problems
    wanted = "x"
    for part in parts:
        value = ALL[part.step] if isinstance(part, Ref) else part + "."
        wanted += value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    step = Step(id="9", args=args, holes=holes)
    assert resolve(step, ALL.__getitem__) == {"a": wanted}
    assert holes_of(written(args, holes), frozenset(), set(ALL)) == (args, holes, ())
    assert Step.model_validate_json(step.model_dump_json()) == step
