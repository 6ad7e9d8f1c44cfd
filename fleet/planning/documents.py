"""Plans that people write: YAML documents, with parameters where they are procedures."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fleet.core.goal import Goal
from fleet.core.plan import Plan, Problem
from fleet.core.tool import ToolSpec
from fleet.core.value import Json, Value
from fleet.errors import BadInput, PlanRejected
from fleet.planning.compile import LineCompiler
from fleet.planning.json_plans import line_of
from fleet.planning.lines import Garbled, RawCall, RawJoin, RawLine
from fleet.planning.parameters import Parameter, bind, substitute
from fleet.planning.passes.order import ordered
from fleet.planning.scope import Limits
from fleet.planning.yaml_text import load_yaml

_PARTS = ("goal", "parameters", "steps", "answer")
_PARAMETERS: TypeAdapter[dict[str, Parameter]] = TypeAdapter(dict[str, Parameter])
Lines = Mapping[tuple[str | int, ...], int]


class PlanDocument(Value):
    """A document as compiled. The answer expression, where there is one, is plan.answer and plan.answer_holes."""

    goal: Goal
    plan: Plan
    parameters: Mapping[str, Parameter] = {}

    @property
    def answer(self) -> Json:
        return self.plan.answer


def load_plan(
    text: str,
    specs: Mapping[str, ToolSpec],
    parameters: Mapping[str, Json] | None = None,
    source_name: str = "the plan",
) -> PlanDocument:
    """Compile a YAML document: goal, parameters, steps (a list, or a mapping of id to step; in any order), answer.

    parameters: values for those that the document declares. source_name: how to name it to its author. Raises BadInput
    where it can't be read, PlanRejected where its steps do not compile.
    """
    document, lines = load_yaml(text, source_name)
    document = _parts(document, source_name)
    declared = _declared(document.get("parameters"), source_name)
    values = bind(declared, parameters or {}, source_name)
    goal = _goal(substitute(document.get("goal"), values, source_name, referring=False), source_name, lines)
    calls = _calls(document.get("steps"), values, source_name, lines)
    answer = substitute(document.get("answer"), values, source_name, referring=True)
    compiled = _compile(calls, specs, goal, text, answer)
    if isinstance(compiled, tuple):
        raise PlanRejected(tuple(_placed(problem, source_name) for problem in compiled), text)
    return PlanDocument(goal=goal, plan=compiled, parameters=declared)


def parameters_of(text: str, source_name: str = "the plan") -> dict[str, Parameter]:
    """The parameters that a document declares, without compiling it. Raises BadInput."""
    document, _ = load_yaml(text, source_name)
    return _declared(_parts(document, source_name).get("parameters"), source_name)


def compile_calls(
    calls: tuple[RawCall | Garbled, ...], compiler: LineCompiler, specs: Mapping[str, ToolSpec]
) -> tuple[Problem, ...]:
    """Give a compiler lines that stand in any order, sorted, and the join that ends them. Gives a cycle's problems."""
    sorted_calls, cycle = ordered([raw for raw in calls if isinstance(raw, RawCall)], specs)
    if cycle:
        return cycle
    garbled = [raw for raw in calls if isinstance(raw, Garbled)]
    lines: list[RawLine] = [*garbled, *sorted_calls, RawJoin()]
    for raw in lines:
        compiler.line(raw)
    return ()


def _compile(
    calls: tuple[RawCall | Garbled, ...], specs: Mapping[str, ToolSpec], goal: Goal, text: str, answer: Json
) -> Plan | tuple[Problem, ...]:
    compiler = LineCompiler(specs, limits=Limits.of(goal))
    return compile_calls(calls, compiler, specs) or compiler.finish(source=text, answer=answer)


def _parts(document: Json, source: str) -> dict[str, Json]:
    if not isinstance(document, dict):
        raise BadInput(f"{source} must be a mapping with the keys {', '.join(_PARTS)}")
    unknown = [name for name in document if name not in _PARTS]
    if unknown:
        raise BadInput(f"{source} has an unknown key {', '.join(unknown)}; it may have {', '.join(_PARTS)}")
    return document


def _declared(parameters: Json, source: str) -> dict[str, Parameter]:
    if not isinstance(parameters or {}, dict):
        raise BadInput(f"{source}: parameters must map each name to {{default, description, required}}")
    try:
        return _PARAMETERS.validate_python({name: one or {} for name, one in (parameters or {}).items()})
    except ValidationError as bad:
        raise BadInput(f"{source}: parameters: {_first(bad)}") from bad


def _goal(goal: Json, source: str, lines: Lines) -> Goal:
    where = f"{source}, line {lines.get(('goal',), 1)}"
    if isinstance(goal, str):
        goal = {"objective": goal}
    if not isinstance(goal, dict):
        raise BadInput(f"{where}: goal must say what is wanted, as a text or as a mapping with an objective")
    try:
        return Goal.model_validate({"loop": "plan", **goal})
    except ValidationError as bad:
        raise BadInput(f"{where}: goal: {_first(bad)}") from bad


def _calls(steps: Json, values: Mapping[str, Json], source: str, lines: Lines) -> tuple[RawCall | Garbled, ...]:
    if not isinstance(steps, dict | list):
        raise BadInput(f"{source}: steps must be a list of steps, or a mapping of ids to steps")
    listed: list[tuple[str | int, Any]] = list(steps.items() if isinstance(steps, dict) else enumerate(steps))
    calls = []
    for key, step in listed:
        whole = {"id": key, **step} if isinstance(key, str) and isinstance(step, dict) else step
        if isinstance(whole, dict) and "args" in whole:
            whole = {**whole, "args": substitute(whole["args"], values, source, referring=True)}
        calls.append(line_of(whole, lines.get(("steps", key))))
    return tuple(calls)


def _placed(problem: Problem, source: str) -> Problem:
    where = source if problem.line is None else f"{source}, line {problem.line}"
    return problem.model_copy(update={"message": f"{problem.message} ({where})"})


def _first(bad: ValidationError) -> str:
    error = bad.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}"
