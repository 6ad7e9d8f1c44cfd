"""The recorded turns answer the prompts that planner and joiner are really asked with."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from labels import right
from reference import Observed, parse
from turns import goals, turns

from fleet.core.goal import Goal
from fleet.core.ids import StepId
from fleet.core.outcome import Failure, Outcome, Status
from fleet.core.plan import Plan, Step
from fleet.core.tool import ToolSpec
from fleet.core.verdict import Finish, Replan
from fleet.llm.port import Message, ModelRequest
from fleet.llm.scripted import ScriptedModel, Turn
from fleet.planning.compile import LineCompiler
from fleet.planning.grammar import PlanParser
from fleet.planning.prompts import Round, joiner_messages, planner_messages, repair_messages, replan_messages
from fleet.planning.verdicts import parse_verdict

STATUS = {"ok": Status.SUCCEEDED, "error": Status.FAILED, "skipped": Status.SKIPPED}


def said(model: ScriptedModel, purpose: Any, messages: tuple[Message, ...]) -> str:
    return asyncio.run(model.complete(ModelRequest(purpose=purpose, messages=messages))).text


def compiled(text: str, specs: Mapping[str, ToolSpec], version: int, known: Mapping[StepId, Step]) -> tuple[Plan, int]:
    parser, compiler = PlanParser(), LineCompiler(specs, known=known)
    for raw in (*parser.feed(text), *parser.close()):
        compiler.line(raw)
    plan = compiler.finish(version, text)
    assert isinstance(plan, Plan), plan
    return plan, compiler.next_id


def outcome(seen: Observed) -> Outcome:
    failure = Failure(type=seen["type"], message=seen["message"]) if seen["status"] == "error" else None
    because = tuple(StepId(each) for each in seen.get("because", ()))
    return Outcome(status=STATUS[seen["status"]], value=seen.get("value"), failure=failure, because=because)


def pursue(goal: Goal, model: ScriptedModel, runner: Any) -> str:
    specs = {tool.spec.name: tool.spec for tool in runner.tools}
    rounds: list[Round] = []
    known: dict[StepId, Step] = {}
    values: dict[str, Any] = {}
    messages = planner_messages(goal, specs.values(), 1)
    while True:
        text = said(model, "planner", messages)
        plan, first_id = compiled(text, specs, len(rounds) + 1, known)
        seen: Sequence[Observed] = runner.run(parse(text), goal.labels, values)
        values |= {each["id"]: each["value"] for each in seen if each["status"] == "ok"}
        known |= {step.id: step for step in plan.steps}
        rounds.append(Round(plan=plan, outcomes={StepId(each["id"]): outcome(each) for each in seen}))
        verdict = parse_verdict(said(model, "joiner", joiner_messages(goal, rounds)))
        if isinstance(verdict, Finish):
            return verdict.answer
        assert isinstance(verdict, Replan)
        rounds[-1] = rounds[-1].model_copy(update={"verdict": verdict.reason})
        messages = replan_messages(goal, list(specs.values()), rounds, verdict.reason, first_id)


def test_every_golden_goal_is_answered_through_the_real_prompts(runner: Any) -> None:
    """R12: calls, values and types reach the joiner as they were recorded."""
    model = ScriptedModel(turns("golden", scale=0))
    assert all(right(pursue(goal, model, runner), goal.labels["label"]) for goal in goals("golden"))


def test_every_replan_goal_is_answered_through_the_real_prompts(runner: Any) -> None:
    """R15, R17: failures reach the joiner as typed errors, and its reason reaches the planner."""
    model = ScriptedModel(turns("replan", scale=0))
    assert all(right(pursue(goal, model, runner), goal.labels["label"]) for goal in goals("replan"))


def test_a_repair_is_answered_by_a_turn_of_its_own() -> None:
    """R19: one repair, told from the first question by what it says."""
    (goal,) = goals("golden", only=["1"])
    rounds = [Round(plan=Plan(steps=()), outcomes={})]
    model = ScriptedModel(
        [
            Turn(purpose="joiner", goal=goal.objective, text="Perhaps."),
            Turn(purpose="joiner", goal=goal.objective, contains=("can't be used",), text="Action: Finish(A (b))"),
        ]
    )
    asked = joiner_messages(goal, rounds)
    first = said(model, "joiner", asked)
    assert first == "Perhaps."
    again = repair_messages(asked, first, (), template="joiner_repair")
    assert parse_verdict(said(model, "joiner", again)) == Finish(answer="A (b)")
