"""The offline tools, by their description in data/TOOLS.md."""

import asyncio
from typing import Any

import pytest
from reference import DATA, Reference, parse, records

from fleet.core.outcome import FailureClass
from fleet.core.plan import Effect
from fleet.tools.context import ToolContext
from fleet.tools.tool import ToolFailed

HEIGHT = "It rises to a total height of {} metres above the sea."


def refused(runner: Any, name: str, args: dict[str, Any], labels: dict[str, str] | None = None) -> tuple[str, str]:
    with pytest.raises(ToolFailed) as caught:
        runner.call(name, args, ToolContext(labels=labels or {}))
    assert not caught.value.failure.retryable
    return caught.value.failure.type, caught.value.failure.message


def calculated(runner: Any, text: str, **variables: Any) -> Any:
    bound = {f"${name[1:]}": value for name, value in variables.items()}
    return runner.call("calc", {"expression": {"expression": text, "variables": bound}})


def test_there_are_four_pure_tools_whose_arguments_have_the_order_of_the_plans(runner: Any) -> None:
    specs = {tool.spec.name: tool.spec for tool in runner.tools}
    assert {name: list(spec.parameters["properties"]) for name, spec in specs.items()} == {
        "search": ["query"],
        "extract": ["text", "attribute"],
        "calc": ["expression"],
        "pick": ["mode", "labels", "values"],
    }
    assert {spec.effect for spec in specs.values()} == {Effect.PURE}
    assert specs["calc"].expressions == {"expression"}


@pytest.mark.parametrize("query", ["Mariana Trench", "the MARIANA  trench ", "challenger deep", "Marianas Trench"])
def test_an_article_is_found_by_any_of_its_names(runner: Any, query: str) -> None:
    assert runner.call("search", {"query": query}).startswith("The Mariana Trench is")


def test_a_name_that_is_not_known_gets_the_closest_one(runner: Any) -> None:
    assert refused(runner, "search", {"query": "Marianna Trench"}) == (
        "not_found",
        'no article named "Marianna Trench". Did you mean "Mariana Trench"?',
    )
    assert refused(runner, "search", {"query": "Xyzzy"}) == ("not_found", 'no article named "Xyzzy".')


@pytest.mark.parametrize(("written", "number"), [("8,848", 8848), ("8,848.86", 8848.86), ("93", 93)])
def test_a_number_is_read_out_of_its_phrase(runner: Any, written: str, number: float) -> None:
    value = runner.call("extract", {"text": HEIGHT.format(written), "attribute": "height_m"})
    assert value == number
    assert type(value) is type(number)


@pytest.mark.parametrize(
    ("text", "attribute", "error"),
    [
        (
            "x",
            "colour",
            (
                "unknown_attribute",
                '"colour" is not one of area_km2, height_m, land_area_km2, length_km, max_depth_m, max_speed_kmh, '
                "population",
            ),
        ),
        ("It is tall.", "height_m", ("attribute_missing", 'the text does not state "height_m"')),
        (HEIGHT.format("tall"), "height_m", ("attribute_missing", 'the text does not state "height_m"')),
        (HEIGHT.format("8") * 2, "height_m", ("attribute_ambiguous", 'the text states "height_m" 2 times')),
    ],
)
def test_a_text_that_does_not_state_it_once_is_refused(
    runner: Any, text: str, attribute: str, error: tuple[str, str]
) -> None:
    assert refused(runner, "extract", {"text": text, "attribute": attribute}) == error


def test_a_number_where_text_is_wanted_is_a_bad_argument(runner: Any) -> None:
    """R18: what is no text is not read."""
    kind, _ = refused(runner, "extract", {"text": 8848, "attribute": "height_m"})
    assert kind == "bad_argument"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("2 - 3 - 4", -5),
        ("100 / 5 / 2", 10),
        ("-(2 - 5) * 2", 6),
        ("- -3", 3),
        ("$3 * 0.80", 8787.2),
        ("$3 - $1", 10985),
        ("-$1 * 2", 2),
        ("max($3, 1, 2) - min(3, 4)", 10981),
        ("avg(1, 2, 4)", 2.333333333),
        ("abs($1 - 1)", 2),
        (".5 + 1.", 1.5),
        ("1 / 3", 0.3333333333),
        ("$3 / $3", 1),
        (" 4 ", 4),
    ],
)
def test_arithmetic_gives_numbers_or_says_why_not(runner: Any, text: str, value: float) -> None:
    """R12: a negative value is a number in the expression, not a sign pasted into it."""
    got = calculated(runner, text, _3=10984, _1=-1)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    "text",
    ["", "1 +", "2 ** 3", "1 2", "(1", "sqrt(4)", "abs(1, 2)", "max()", "$2 + 1", "$9", "x", "1;2", "__import__('os')"],
)
def test_what_is_no_arithmetic_is_a_bad_expression(runner: Any, text: str) -> None:
    """R38: nothing in an expression is run."""
    bound = {"expression": text, "variables": {"$2": "text", "$3": True}}
    kind, message = refused(runner, "calc", {"expression": bound})
    assert kind == "bad_expression"
    assert text in message


def test_dividing_by_nothing_is_named(runner: Any) -> None:
    assert refused(runner, "calc", {"expression": "1 / (2 - 2)"})[0] == "division_by_zero"


@pytest.mark.parametrize(("mode", "values", "label"), [("max", [1, 3, 3], "b"), ("min", [2, 2, 3], "a")])
def test_the_first_of_the_largest_or_smallest_is_picked(
    runner: Any, mode: str, values: list[float], label: str
) -> None:
    assert runner.call("pick", {"mode": mode, "labels": ["a", "b", "c"], "values": values}) == label


@pytest.mark.parametrize(
    "args",
    [
        {"mode": "mean", "labels": ["a", "b"], "values": [1, 2]},
        {"mode": "max", "labels": ["a"], "values": [1]},
        {"mode": "max", "labels": ["a", "b"], "values": [1, 2, 3]},
        {"mode": "max", "labels": ["a", "b"], "values": [1, "tall"]},
    ],
)
def test_a_pick_among_what_does_not_match_is_a_bad_argument(runner: Any, args: dict[str, Any]) -> None:
    assert refused(runner, "pick", args)[0] == "bad_argument"


def test_a_fault_meets_its_own_goal_alone(runner: Any) -> None:
    """R15: twenty goals with faults of their own share one fleet."""
    tower = {"query": "CN Tower"}
    assert refused(runner, "search", tower, {"set": "replan", "question": "38"}) == (
        "tool_error",
        "search backend refused the query (connection reset by peer)",
    )
    article = runner.call("search", tower)
    for labels in ({"set": "replan", "question": "4"}, {"set": "golden", "question": "38"}):
        assert runner.call("search", tower, ToolContext(labels=labels)) == article
    other = ToolContext(labels={"set": "replan", "question": "38"})
    assert runner.call("search", {"query": "Canadian National Tower"}, other) == article


@pytest.mark.parametrize(
    ("labels", "step", "seconds"),
    [
        ({"set": "golden", "question": "1", "scale": "0.5"}, "1", 0.4025),
        ({"set": "react", "question": "1", "scale": "1"}, "turn-2", 0.486),
        ({"set": "replan", "question": "1", "scale": "2"}, "9", 3.352),
        ({"set": "golden", "question": "1", "scale": "0.5"}, "99", 0.0),
        ({"set": "golden", "question": "1", "scale": "0.0"}, "1", None),
        ({"set": "golden", "question": "1", "scale": "0.5"}, "", None),
        ({}, "1", None),
    ],
)
def test_a_call_takes_as_long_as_recorded(
    runner: Any, monkeypatch: pytest.MonkeyPatch, labels: dict[str, str], step: str, seconds: float | None
) -> None:
    slept: list[float] = []

    async def sleep(delay: float) -> None:
        slept.append(delay)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    runner.call("search", {"query": "Mariana Trench"}, ToolContext(labels=labels, step=step))
    assert slept == ([] if seconds is None else [pytest.approx(seconds)])


def test_tools_and_reference_agree_on_every_call_of_every_plan(runner: Any) -> None:
    """R12: two implementations with no code in common, 1,353 calls, dollar amounts in three of the articles."""
    reference = Reference()
    calls = 0
    for record in records("golden.jsonl"):
        plan = parse(record["plan"])
        calls += len(plan)
        labels = {"set": "golden", "question": record["id"]}
        assert runner.run(plan, labels) == reference.carry_out(plan)
    assert calls == 1353


def test_tools_reference_and_record_agree_on_every_replan(runner: Any) -> None:
    reference = Reference()
    for record in records("replan.jsonl"):
        labels = {"set": "replan", "question": record["id"]}
        values: dict[str, Any] = {}
        for past in record["rounds"]:
            plan = parse(past["plan"])
            seen = runner.run(plan, labels, values)
            assert seen == reference.carry_out(plan, values, record["faults"])
            for shown, recorded in zip(seen, past["results"], strict=True):
                assert {**shown, **_as_text(recorded)} == shown
            values |= {shown["id"]: shown["value"] for shown in seen if shown["status"] == "ok"}


def _as_text(recorded: dict[str, Any]) -> dict[str, Any]:
    ids = {"id": str(recorded["id"])}
    because = {"because": [str(each) for each in recorded["because"]]} if "because" in recorded else {}
    return recorded | ids | because


def test_the_source_of_the_questions_is_named() -> None:
    assert "Sehoon Kim" in (DATA / "LICENSE.questions").read_text()
    assert "SqueezeAILab/LLMCompiler" in (DATA / "README.md").read_text()


def test_no_error_is_one_that_goes_away() -> None:
    failed = ToolFailed("not_found", "no")
    assert failed.failure.cls is FailureClass.PERMANENT
