"""One process that is a whole fleet: what tests of the engine do with its parts."""

from typing import Any

from fleet.core.attempt import Attempt
from fleet.core.goal import Goal
from fleet.core.ids import RunId, StepId
from fleet.core.outcome import Outcome, Status
from fleet.core.plan import Plan, Step
from fleet.core.run import End
from fleet.engine import submit
from fleet.engine.deps import Deps
from fleet.engine.holding import Holding
from fleet.engine.slot import Slot
from fleet.engine.submit import Handle
from fleet.engine.told import Nobody
from fleet.errors import StoreUnreachable
from fleet.store.steps import Place
from fleet.tools.registry import Registry
from fleet.tools.tool import Tool

HERE = Place("w1", "main", 30.0)
AT_ONCE = Place("w2", "main", 0.0)
DONE = Outcome(status=Status.SUCCEEDED, value=1)


def with_tools(deps: Deps, *tools: Tool) -> Deps:
    deps.registry = Registry(tools)
    return deps


def slot_of(deps: Deps, holding: Holding | None = None) -> Slot:
    return Slot(deps, holding or Holding(), HERE, Nobody())


def planned(deps: Deps, *steps: Step) -> RunId:
    (handle,) = submit.submit([(Goal(objective="try"), Plan(steps=steps))], deps)
    assert isinstance(handle, Handle)
    return RunId(handle.run_id)


def asked(deps: Deps) -> RunId:
    (handle,) = submit.submit([(Goal(objective="ask"), None)], deps)
    assert isinstance(handle, Handle)
    return RunId(handle.run_id)


def a_step(name: str = "a", tool: str = "act", **more: Any) -> Step:
    return Step(id=StepId(name), tool=tool, **more)


def claim(deps: Deps, place: Place = HERE) -> Attempt:
    attempt, _ = deps.live.steps.claim(place)
    assert attempt is not None
    return attempt


def outcome_of(deps: Deps, run: RunId, step: str = "a") -> Outcome:
    outcome = deps.record.outcomes.get(run, StepId(step))
    assert outcome is not None
    return outcome


def ended(deps: Deps, run: RunId) -> End:
    end = deps.record.goals.of_run(run).end
    assert end is not None
    assert deps.live.runs.about(run)["status"] == end.status
    return end


def unreachable(*_: object, **__: object) -> Any:
    raise StoreUnreachable("Redis does not answer")
