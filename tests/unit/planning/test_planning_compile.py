"""Compiler passes: good plans become steps, bad ones become problems that a planner can act on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning_samples import (
    FAILED_TRENCHES,
    OCEANS,
    SECOND_TRENCHES,
    TEXT,
    TOOLS,
    TRENCHES,
    codes,
    compile_text,
    parse,
    plan_of,
    tool,
)

from fleet.core.goal import Goal
from fleet.core.plan import AnyOf, Effect, Plan, Problem, Quorum, Step
from fleet.core.value import Json
from fleet.planning.compile import LineCompiler
from fleet.planning.lines import RawCall, RawJoin
from fleet.planning.paths import remaining
from fleet.planning.schema import mistakes
from fleet.planning.scope import Limits


@pytest.mark.parametrize("text", [TRENCHES, OCEANS, FAILED_TRENCHES])
def test_a_golden_plan_compiles_to_its_steps(text: str) -> None:
    """R11, R12"""
    plan = plan_of(text)
    assert len(plan.steps) == 7
    assert plan.step("3").args == {"text": "$1", "attribute": plan.step("4").args["attribute"]}
    assert plan.step("3").needs == ("1",)
    assert plan.step("7").needs == ("5", "6")
    assert plan.source == text
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_a_second_plan_may_refer_to_the_steps_of_the_first() -> None:
    """R15"""
    first = plan_of(FAILED_TRENCHES)
    second = plan_of(SECOND_TRENCHES, known=first.steps)
    assert [step.id for step in second.steps] == ["9", "10", "11", "12", "13"]
    assert second.step("9").needs == ("1",)
    assert codes(compile_text(SECOND_TRENCHES)) == ["dangling_reference"] * 2


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ('1. serch("x")\n2. join()', "unknown_tool", "Did you mean search? The tools are: calc, extract"),
        ('1. search("x")\n1. search("y")\n2. join()', "duplicate_id", "used twice"),
        ('1. search("x", 1, 2)\n2. join()', "too_many_arguments", "takes query, limit; 3 were given"),
        ("1. search()\n2. join()", "missing_argument", '"query" is missing'),
        ('1. search("x", depth=2)\n2. join()', "unknown_argument", 'it has no "depth"'),
        ('1. search("x", query="y")\n2. join()', "argument_twice", "give it once"),
        ("1. search(7)\n2. join()", "bad_argument", 'argument "query" must be string; it is 7'),
        ('1. search("x", limit=0)\n2. join()', "bad_argument", "at least 1"),
        ('1. pick("mean", ["a"], [1])\n2. join()', "bad_argument", 'one of "max", "min"'),
        ('1. pick("max", ["a", 2], [1])\n2. join()', "bad_argument", 'argument "labels[1]" must be string'),
        ('1. extract("$2", "h")\n2. search("x")\n3. join()', "forward_reference", "put step 2 first"),
        ('1. extract("$1", "h")\n2. join()', "self_reference", "refers to itself"),
        ('1. search("x")\n5. extract("$3", "h")\n6. join()', "dangling_reference", "there are: 1"),
        ('1. search("x")', "missing_join", "write join() as its last line"),
        ('1. join()\n2. search("x")', "after_join", "comes after join()"),
        ('1. search("x")\n2. join()\n3. join()', "join_twice", "2 join() lines"),
        ("1. join()", "empty_plan", "no step"),
        ("I would search.\njoin()", "empty_plan", "no step"),
        ('1. search("x")\n2. search("is $1 right?")\n3. join()', "ambiguous_reference", "write ${1}"),
        ('1. search("x\n2. join()', "unreadable", "not closed"),
    ],
)
def test_a_bad_plan_is_refused_with_what_to_do(text: str, code: str, says: str) -> None:
    """R11"""
    found = compile_text(text)
    assert code in codes(found)
    assert isinstance(found, tuple)
    assert says in next(str(problem) for problem in found if problem.code == code)


def test_a_mistake_is_told_once_and_every_mistake_is_told() -> None:
    """R11: what refers to a refused line is not refused too."""
    text = '1. serch("x")\n2. search(1)\n3. extract("$1", "h", 3)\n4. extract("$2", "h")\n5. extract("$1", "${2}")'
    assert codes(compile_text(text)) == ["unknown_tool", "bad_argument", "too_many_arguments", "missing_join"]
    assert codes(compile_text('1. serch("$4")\njoin')) == ["unknown_tool", "forward_reference"]


def test_a_tool_that_the_goal_does_not_allow_is_refused() -> None:
    """R38"""
    goal = Goal(objective="x", tools=("search",))
    found = compile_text('1. send("a@b", "c")\n2. join()', Limits.of(goal))
    assert codes(found) == ["tool_not_allowed"]
    assert "It may use: search." in str(found)


def test_a_plan_with_too_many_steps_is_refused_once_with_the_limit() -> None:
    """R14, R20"""
    text = "\n".join(f'{n}. search("{n}")' for n in range(1, 801)) + "\njoin()"
    found = compile_text(text, Limits(steps=500))
    assert codes(found) == ["too_many_steps"]
    assert "more than 500 steps" in str(found)


def test_the_worst_case_cost_counts_every_retry() -> None:
    """R25"""
    text = '1. think("x")\n2. think("y")\n3. think("x")\n4. join()'
    assert isinstance(compile_text(text, Limits(money=1.5)), Plan)
    found = compile_text(text, Limits(money=1.49))
    assert codes(found) == ["over_budget"]
    assert "$1.5" in str(found)
    assert "$1.49" in str(found)


def test_equal_steps_run_once_and_references_follow() -> None:
    """R15: also those that become equal once what they refer to is one step."""
    text = """1. search("a")
2. search("a")
3. extract("$1", "h")
4. extract(attribute="h", text="${2}")
5. calc("$3 + $4")
6. join()"""
    plan = plan_of(text)
    assert [step.id for step in plan.steps] == ["1", "3", "5"]
    assert plan.step("5").args == {"expression": "$3 + $3"}
    assert plan.step("5").needs == ("3",)


def test_equal_writes_are_both_meant() -> None:
    """R4"""
    plan = plan_of('1. send("a", "b")\n2. send("a", "b")\n3. join()')
    assert [step.effect for step in plan.steps] == [Effect.WRITES, Effect.WRITES]


def test_a_step_takes_lane_effect_and_times_from_its_tool() -> None:
    step = plan_of('1. think("x")\njoin').step("1")
    assert (step.effect, step.seconds, step.timeout, step.lane) == (Effect.READS, 5.0, 60.0, "main")


def test_a_plan_may_lower_a_timeout_and_not_raise_it() -> None:
    compiler = LineCompiler(TOOLS)
    low = compiler.line(RawCall(id="1", tool="think", args=("x",), timeout=2))
    high = compiler.line(RawCall(id="2", tool="think", args=("y",), timeout=900, note="why"))
    assert isinstance(low, Step)
    assert isinstance(high, Step)
    assert (low.timeout, high.timeout, high.note) == (2, 60, "why")


def test_needs_without_a_reference_and_join_policies_are_kept() -> None:
    """R17"""
    compiler = LineCompiler(TOOLS)
    compiler.line(RawCall(id="a", tool="search", args=("x",)))
    compiler.line(RawCall(id="b", tool="search", args=("y",)))
    step = compiler.line(RawCall(id="c", tool="extract", args=("$b", "h"), needs=("a", "b"), join=AnyOf()))
    assert isinstance(step, Step)
    assert (step.needs, step.join) == (("b", "a"), AnyOf())
    bad = compiler.line(RawCall(id="d", tool="extract", args=("$b", "h"), needs=("c",), join=Quorum(k=3)))
    assert isinstance(bad, tuple)
    assert [problem.code for problem in bad] == ["bad_quorum"]


def test_ids_go_on_after_the_join() -> None:
    """R15"""
    compiler = LineCompiler(TOOLS)
    for raw in parse(TRENCHES):
        compiler.line(raw)
    assert compiler.joined
    assert compiler.next_id == 9


def test_an_answer_follows_a_step_that_was_merged() -> None:
    compiler = LineCompiler(TOOLS)
    for raw in [*parse('1. search("a")\n2. search("a")'), RawJoin()]:
        compiler.line(raw)
    plan = compiler.finish(answer={"both": ["$1", "${2.title}"]})
    assert isinstance(plan, Plan)
    assert plan.answer == {"both": ["$1", "${1.title}"]}
    assert [hole.at for hole in plan.answer_holes] == [("both", 0), ("both", 1)]
    assert codes(compiler.finish(answer="$7")) == ["dangling_reference"]


@given(st.text(alphabet=st.sampled_from(list('12. search("x$,)extract[]{}\n')), max_size=80))
def test_whatever_a_planner_writes_is_a_plan_or_problems(text: str) -> None:
    """R11: never an exception, never nothing."""
    found = compile_text(text)
    assert isinstance(found, Plan) or (found and all(isinstance(problem, Problem) for problem in found))


SCHEMA: dict[str, Json] = {
    "$defs": {
        "Row": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        "Tree": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/Tree"}}]},
    },
    "type": "object",
    "properties": {
        "row": {"$ref": "#/$defs/Row"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "rows": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/Row"}, TEXT]}, "maxItems": 2},
        "mode": {"const": "fast"},
        "open": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "closed": {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
        "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "pair": {"type": "array", "prefixItems": [TEXT, {"type": "integer"}], "minItems": 2},
        "tree": {"$ref": "#/$defs/Tree"},
        "name": {"type": "string", "minLength": 1},
        "all": {"allOf": [{"$ref": "#/$defs/Row"}]},
    },
}


@pytest.mark.parametrize(
    ("name", "good", "bad", "says"),
    [
        ("row", {"n": 1.0}, {}, 'has no "n"'),
        ("row", {"n": 2, "more": 1}, {"n": True}, 'argument "row.n" must be integer; it is true'),
        ("maybe", None, "x", 'must be integer or null; it is "x"'),
        ("rows", [{"n": 1}, "t"], ["a", "b", "c"], "at most 2 items"),
        ("rows", [], [{"n": "x"}], 'argument "rows[0].n" must be integer'),
        ("mode", "fast", "slow", 'must be "fast"'),
        ("open", {"x": True}, {"x": 1}, 'argument "open.x" must be boolean'),
        ("closed", {"a": 1}, {"b": 1}, 'can\'t have "b"'),
        ("share", 1, 0, "more than 0"),
        ("share", 0.5, 2, "at most 1"),
        ("share", 0.1, False, "must be number"),
        ("pair", ["a", 1], ["a"], "at least 2 items"),
        ("pair", ["a", 1], ["a", "b"], 'argument "pair[1]" must be integer'),
        ("tree", [[], [None]], [[1]], "must be"),
        ("name", "x", "", "at least 1 characters"),
        ("all", {"n": 1}, {"n": "1"}, "must be integer"),
        ("open", {"x": False}, "x" * 500, "..."),
    ],
)
def test_arguments_are_checked_against_the_schema_that_pydantic_emits(
    name: str, good: Json, bad: Json, says: str
) -> None:
    """R11, R30"""
    schema = SCHEMA["properties"][name]
    assert list(mistakes(good, schema, (name,), (), SCHEMA)) == []
    found = list(mistakes(bad, schema, (name,), (), SCHEMA))
    assert len(found) == 1
    assert says in found[0]
    assert list(mistakes(bad, schema, (name,), {(name,)}, SCHEMA)) == []


def test_a_tool_that_takes_anything_takes_anything() -> None:
    loose = tool("loose", {"a": {}}, required=[])
    loose = loose.model_copy(update={"parameters": {**loose.parameters, "additionalProperties": True}})
    compiler = LineCompiler({"loose": loose})
    step = compiler.line(RawCall(id="1", tool="loose", kwargs={"z": 1, "a": None}))
    assert isinstance(step, Step)
    assert step.args == {"a": None, "z": 1}


def test_the_remaining_path_is_the_longest_chain_that_hangs_on_a_step() -> None:
    steps = [
        Step(id="c", needs=("a", "b"), seconds=4),
        Step(id="a", seconds=1),
        Step(id="b", needs=("a", "elsewhere"), seconds=2),
        Step(id="d", needs=("a",), seconds=0.5),
    ]
    assert remaining(steps) == {"a": 7, "b": 6, "c": 4, "d": 0.5}
    assert remaining(()) == {}


def test_a_chain_of_ten_thousand_steps_is_no_burden() -> None:
    """R16"""
    chain = [Step(id=str(n), needs=(str(n - 1),) if n else ()) for n in range(10_000)]
    assert remaining(chain)["0"] == 10_000
