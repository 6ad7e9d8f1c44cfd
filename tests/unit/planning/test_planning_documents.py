"""YAML plans by hand, and JSON plans, whole and streamed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning_samples import NUMBER, TEXT, TOOLS, tool

from fleet.core.plan import BestEffort, Quorum, Settled
from fleet.core.value import Json
from fleet.errors import BadInput, PlanRejected
from fleet.planning.compile import LineCompiler
from fleet.planning.documents import compile_calls, load_plan, parameters_of
from fleet.planning.json_plans import plan_schema, steps_from_json
from fleet.planning.json_stream import JsonSteps
from fleet.planning.lines import Garbled, RawCall, RawJoin, RawLine, Thought
from fleet.planning.references import fill, resolve

RATIO = """
goal:
  objective: The ratio of {{first}} to {{second}}
  budget: {steps: 10}
parameters:
  first: {description: the larger one, required: true}
  second: {default: Arctic Ocean}
  limit: {default: 3}
steps:
  ratio: {tool: calc, args: {expression: "${area-a} / $b"}, note: last}
  area-a: {tool: extract, args: ["$a", area_km2]}
  b: {tool: extract, args: {text: $found, attribute: area_km2}, timeout: 5}
  a: {tool: search, args: {query: "{{first}}", limit: "{{limit}}"}}
  found: {tool: search, args: {query: "about {{second}}"}, needs: [a], join: settled}
answer: {ratio: $ratio, text: "it is ${ratio}"}
"""


def load(text: str, **parameters: Json) -> Any:
    return load_plan(text, TOOLS, parameters, "plan.yaml")


def refusal(text: str, **parameters: Json) -> str:
    with pytest.raises(BadInput) as refused:
        load(text, **parameters)
    return str(refused.value)


def test_a_procedure_is_filled_sorted_and_compiled() -> None:
    """R11: steps may stand in any order."""
    document = load(RATIO, first="Atlantic Ocean")
    plan = document.plan
    assert document.goal.objective == "The ratio of Atlantic Ocean to Arctic Ocean"
    assert (document.goal.loop, document.goal.budget.steps) == ("plan", 10)
    assert [step.id for step in plan.steps] == ["a", "area-a", "found", "b", "ratio"]
    assert plan.step("a").args == {"query": "Atlantic Ocean", "limit": 3}
    assert plan.step("found").args == {"query": "about Arctic Ocean"}
    assert (plan.step("found").needs, plan.step("found").join) == (("a",), Settled())
    assert (plan.step("b").timeout, plan.step("ratio").note) == (5, "last")
    assert plan.step("ratio").needs == ("area-a", "b")
    assert fill(plan.answer, plan.answer_holes, lambda step: 7.5) == {"ratio": 7.5, "text": "it is 7.5"}
    assert document.answer == plan.answer


def test_a_list_of_steps_and_a_goal_in_words_are_enough() -> None:
    plan = load(
        'goal: find it\nsteps:\n- {id: 1, tool: search, args: {query: x}}\n- {id: 2, tool: extract, args: ["$1", h]}\n'
    ).plan
    assert [step.id for step in plan.steps] == ["1", "2"]
    assert plan.answer is None


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [("{quorum: 2}", Quorum(k=2)), ("{best_effort: 2.5}", BestEffort(within=2.5)), ("settled", Settled())],
)
def test_a_step_says_how_it_joins(policy: str, wanted: object) -> None:
    """R17"""
    steps = "  a: {tool: search, args: [x]}\n  b: {tool: search, args: [y]}\n"
    text = f"goal: g\nsteps:\n{steps}  c: {{tool: search, args: [z], needs: [$a, b], join: {policy}}}\n"
    assert load(text).plan.step("c").join == wanted


STEP = "steps:\n  a: {tool: search, args: [x]}\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("goal: g\nsteps: [\n", "plan.yaml, line 3: not valid YAML"),
        ("goal: g\ngoal: h\n" + STEP, 'plan.yaml, line 2: the key "goal" is given twice'),
        ("", "is empty"),
        ("- a", "must be a mapping"),
        ("gaol: g\n" + STEP, "unknown key gaol; it may have goal, parameters, steps, answer"),
        (STEP, "goal must say what is wanted"),
        ("goal: {objective: ' '}\n" + STEP, "objective"),
        ("\ngoal: {objective: g, colour: red}\n" + STEP, "line 2: goal: colour"),
        ("goal: g", "steps must be a list"),
        ("goal: g\nsteps: []", "no step"),
        ("goal: g\nsteps: [7]", "a step is an object"),
        ("goal: g\nsteps:\n- {id: 1, tool: search, argz: [x]}", "no field argz"),
        ("goal: g\nsteps:\n- {tool: search, args: [x]}", "id must name a step"),
        ("goal: g\nsteps:\n- {id: 1.5, tool: search, args: [x]}", "id must name a step"),
        ("goal: g\nsteps:\n- {id: plan.1, tool: search, args: [x]}", "is no id"),
        ("goal: g\nsteps:\n- {id: 1, args: [x]}", "tool must be a text"),
        ("goal: g\nsteps:\n- {id: 1, tool: search, args: x}", "args must be an object"),
        ("goal: g\nsteps:\n- {id: 1, tool: search, args: [x], join: most}", "join must be all, any"),
        ("goal: g\nsteps:\n- {id: 1, tool: search, args: [x], join: {quorum: 0}}", "join must be all, any"),
        ("goal: g\nsteps:\n- {id: 1, tool: search, args: [x], timeout: -1}", "timeout must be"),
        ("goal: g\nsteps:\n- {id: 1, tool: search, args: [.inf]}", "no JSON number"),
        ("goal: g\nsteps:\n- {id: 1, tool: search, args: [!!binary aGk=]}", "a bytes can't be a value"),
        ("goal: g\nsteps:\n- {id: 1, tool: search, args: [!!python/name:os.system ]}", "not valid YAML"),
        ("goal: g\nsteps:\n- {id: 1, tool: search, args: [x]}\n- {id: 1, tool: search, args: [y]}", "used twice"),
        ("goal: g\nsteps:\n\n- {id: 1, tool: serch, args: [x]}", "(plan.yaml, line 4)"),
        ("goal: g\nsteps:\n  a: {tool: extract, args: [$b, h]}\n", "there is no step b"),
        ("goal: g\nanswer: $z\n" + STEP, "the answer refers to step z"),
        ("goal: g\nparameters: [a]\n" + STEP, "parameters must map"),
        ("goal: g\nparameters: {a: {colour: 1}}\n" + STEP, "parameters: a.colour"),
        ("goal: g {{who}}\n" + STEP, "uses {{who}}, which is not declared"),
        ("goal: g\n" + "x: " + "[" * 70 + "]" * 70, "nested more than 64"),
        ("goal: g\nx: " + "[" * 5000, "nested too deep"),
        ("goal: &a [*a]\n" + STEP, "contains itself"),
        ("goal: g\nx: \x00", "not valid YAML"),
    ],
)
def test_a_bad_document_is_refused_with_the_place_and_the_way_out(text: str, says: str) -> None:
    """R11"""
    assert says in refusal(text)


def test_a_cycle_is_named_step_by_step() -> None:
    """R11"""
    text = """goal: g
steps:
  start: {tool: search, args: [x]}
  a: {tool: extract, args: [$c, h]}
  b: {tool: extract, args: [$a, "${start}"]}
  c: {tool: search, args: [x], needs: [b, start]}
"""
    with pytest.raises(PlanRejected) as refused:
        load(text)
    (problem,) = refused.value.problems
    assert "wait for each other (a -> c -> b -> a)" in str(problem)
    assert "line 4" in str(problem)


def test_an_alias_bomb_is_refused_before_it_is_expanded() -> None:
    """R38"""
    layers = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    assert "values once its aliases are expanded" in refusal("a0: &a0 [lol]\n" + layers)
    assert "larger than 5,000,000 bytes" in refusal("goal: " + "x" * 5_000_001)


def test_anchors_and_dates_are_usable() -> None:
    plan = load(
        "goal: g\nsteps:\n  a: {tool: search, args: &x {query: 2024-01-01}}\n  b: {tool: search, args: *x}"
    ).plan
    assert [step.args for step in plan.steps] == [{"query": "2024-01-01"}]


def test_unknown_and_missing_parameters_are_named() -> None:
    assert "needs a value for first" in refusal(RATIO)
    assert "has no parameter frist; its parameters are: first, second, limit" in refusal(RATIO, frist=1)
    assert parameters_of(RATIO)["second"].default == "Arctic Ocean"


@given(
    st.text(alphabet=st.sampled_from(list("$\\{}ab1. ")), max_size=12), st.sampled_from(["", "$", "x$", "$b", "x $a"])
)
def test_a_parameter_never_becomes_a_reference(given_text: str, before: str) -> None:
    """R12, R38"""
    text = (
        "goal: g\nparameters: {p: {}}\n"
        + STEP
        + f"  b: {{tool: search, args: ['{before}{{{{p}}}}5', 2], needs: [a]}}\n"
    )
    step = load(text, p=given_text).plan.step("b")
    assert step.holes == ()
    assert resolve(step, lambda step: "never") == {"query": f"{before}{given_text}5", "limit": 2}


def test_a_parameter_cannot_stand_inside_a_reference() -> None:
    """R12, R38"""
    text = "goal: g\nparameters: {p: {}}\n" + STEP + "  b: {tool: search, args: ['${{{p}}}']}\n"
    assert "can't stand inside a reference" in refusal(text, p="a")


def test_braces_can_be_plain_text() -> None:
    assert load("goal: g\nsteps:\n  a: {tool: search, args: ['\\{{x}}']}").plan.step("a").args == {"query": "{{x}}"}


PLAN: dict[str, Json] = {
    "thought": 'a "steps": [1] trap {',
    "steps": [
        {"id": "1", "tool": "search", "args": {"query": 'braces } ] "quoted" \\'}},
        {"id": 2, "tool": "extract", "args": ["$1", "h"], "needs": ["1"]},
    ],
}


def stream(text: str, size: int = 1) -> list[RawLine]:
    parser, found = JsonSteps(), []
    for start in range(0, len(text), size):
        found += parser.feed(text[start : start + size])
    return found + parser.close()


@pytest.mark.parametrize("indent", [None, 2])
def test_a_streamed_json_plan_gives_the_lines_of_the_whole_one(indent: int | None) -> None:
    """R13"""
    raws = stream(json.dumps(PLAN, indent=indent))
    wanted = steps_from_json(PLAN)
    assert [raw.model_copy(update={"line": None}) for raw in raws] == list(wanted)
    assert [type(raw) for raw in stream(json.dumps(PLAN["steps"]))] == [RawCall, RawCall, RawJoin]


def test_a_step_comes_out_as_soon_as_its_object_closes() -> None:
    """R13"""
    parser = JsonSteps()
    assert parser.feed('Plan:\n```json\n{"steps": [{"id": "1", "tool": "t", "args": {}') == [
        Thought(text="Plan:", line=1)
    ]
    assert [type(raw) for raw in parser.feed("}")] == [RawCall]
    assert [type(raw) for raw in parser.feed("]")] == [RawJoin]
    assert parser.feed("}\n```\n") + parser.close() == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"steps": [{"id": 1, "tool": "t"}', "breaks off"),
        ('{"steps": [{"id": 1, "id": 2, "tool": "t"}]}', "given twice"),
        ('{"steps": [{"id": 1, "tool": "t", "args": [NaN]}]}', "no JSON number"),
        ('{"steps": [3, "x"]}', "a step is an object"),
        ('{"steps": [{"id": 1 "tool": "t"}]}', "can't be read as JSON"),
        ('{"steps": [' + "[" * 200 + "]" * 200 + "]}", "nested"),
        ('{"steps": [{"id": "' + "x" * 200_001 + '"}]}', "longer than"),
        ('{"plan": []}', "a JSON plan is"),
        ("no plan", "a JSON plan is"),
        ("", "a JSON plan is"),
    ],
)
def test_a_broken_json_plan_is_never_taken_for_a_complete_one(text: str, says: str) -> None:
    """R11, R13"""
    garbled = [raw for raw in stream(text, 7) if isinstance(raw, Garbled)]
    assert says in garbled[0].problem.message


json_texts = st.one_of(
    st.sampled_from([json.dumps(PLAN), json.dumps(PLAN, indent=1), "x [y]\n" + json.dumps(PLAN["steps"]) + "\nz"]),
    st.text(alphabet=st.sampled_from(list('{}[]",:\\ \n1as')), max_size=40).map(lambda rest: '{"steps": [' + rest),
)


@given(json_texts, st.integers(1, 50))
def test_json_comes_out_the_same_for_every_way_of_cutting_it(text: str, size: int) -> None:
    """R13"""
    assert stream(text, size) == stream(text, len(text) + 1)


def test_a_json_plan_in_any_order_compiles() -> None:
    """R11"""
    compiler = LineCompiler(TOOLS)
    calls = tuple(raw for raw in steps_from_json({"steps": PLAN["steps"][::-1]}) if not isinstance(raw, RawJoin))
    assert compile_calls(calls, compiler, TOOLS) == ()  # type: ignore[arg-type]
    assert compiler.problems == ()
    assert compiler.joined
    assert isinstance(steps_from_json("no plan")[0], Garbled)


def test_the_schema_offers_each_tool_and_lets_references_in() -> None:
    rows = {"type": "array", "items": {"$ref": "#/$defs/Row"}}
    spec = tool("load", {"rows": rows, "name": TEXT, "n": {"anyOf": [NUMBER, {"type": "null"}]}})
    row = {"type": "object", "properties": {"n": NUMBER}}
    spec = spec.model_copy(update={"parameters": {**spec.parameters, "$defs": {"Row": row}}})
    schema = plan_schema({"load": spec, **TOOLS})
    steps = schema["properties"]["steps"]["items"]["anyOf"]
    by_tool = {step["properties"]["tool"]["const"]: step["properties"]["args"] for step in steps}
    assert set(by_tool) == {"load", *TOOLS}
    reference = by_tool["load"]["properties"]["rows"]["anyOf"][1]
    assert reference["pattern"].startswith("^")
    assert by_tool["load"]["properties"]["name"] == TEXT
    assert by_tool["load"]["properties"]["n"]["anyOf"][-1] == reference
    inner = by_tool["load"]["properties"]["rows"]["anyOf"][0]["items"]["anyOf"][0]
    assert inner == {"$ref": "#/$defs/load.Row"}
    assert "load.Row" in schema["$defs"]
    assert "$defs" not in plan_schema(TOOLS)
