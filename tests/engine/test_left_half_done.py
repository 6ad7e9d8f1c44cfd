"""What a process that died between the record and the live state has left half done."""

from typing import Any

import pytest

from fleet.core.goal import Goal
from fleet.core.ids import RunId, StepId
from fleet.core.run import RunStatus
from fleet.engine import finish, submit
from fleet.engine.deps import Deps
from fleet.engine.submit import Handle
from fleet.errors import StoreUnreachable
from fleet.llm.scripted import ScriptedModel
from fleet.llm.select import Models
from fleet.llm.turns import Turn
from fleet.tools.decorator import tool
from tests.acceptance.conftest import until
from tests.engine.fleetlet import a_step, ended, planned, slot_of, unreachable, with_tools

PLANS = "Add two numbers"
TURNS = (
    Turn(purpose="planner", goal=PLANS, text="1. act(1)\n2. act(2)\n3. join()"),
    Turn(purpose="joiner", goal=PLANS, text="Thought: done.\nAction: Finish(both)"),
)


def test_a_step_that_was_noted_and_not_added_keeps_its_id(deps: Deps, monkeypatch: pytest.MonkeyPatch) -> None:
    """R13: Redis goes away between the two; the planner is asked again, and says the same."""

    @tool(effect="pure")
    def act(number: int) -> int:
        return number

    with_tools(deps, act)
    model = ScriptedModel(TURNS)
    deps.models = Models(planner=model, step=model)
    (handle,) = submit.submit([(Goal(objective=PLANS), None)], deps)
    assert isinstance(handle, Handle)
    run = RunId(handle.run_id)
    add, tries = deps.live.runs.add, list[StepId]()

    def fails_once(of: str, steps: Any, *more: Any) -> Any:
        tries.append(steps[0].id)
        if tries.count(StepId("2")) == 1 and steps[0].id == "2":
            raise StoreUnreachable("Redis does not answer")
        return add(of, steps, *more)

    monkeypatch.setattr(deps.live.runs, "add", fails_once)
    slot_of(deps).carry(None)
    assert [step.id for _, step in deps.record.plans.noted(run)] == ["1", "2"]
    until(lambda: deps.live.steps.due()[0] == 1)
    slot_of(deps).carry(None)
    assert ended(deps, run).status is RunStatus.SUCCEEDED
    (plan,) = deps.record.plans.all(run)
    assert [step.id for step in plan.steps] == ["1", "2"]


def test_an_outcome_that_a_worker_did_not_come_to_keep_is_kept_when_the_run_is_filed(
    deps: Deps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1 in part: it died right after the commit of a pure step."""

    @tool(effect="pure")
    def act() -> int:
        return 7

    run = planned(with_tools(deps, act), a_step())
    with monkeypatch.context() as patched:
        patched.setattr(deps.record.outcomes, "put_behind", unreachable)
        slot_of(deps).carry(None)
    assert deps.record.outcomes.get(run, StepId("a")) is None
    finish.file_events(run, deps)
    kept = deps.record.outcomes.get(run, StepId("a"))
    assert kept is not None
    assert kept.value == 7
