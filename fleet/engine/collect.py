"""The answer of a settled plan without a model: what it says its answer is, or what its last steps gave."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fleet.core.ids import StepId
from fleet.core.outcome import Outcome, Status
from fleet.core.plan import Plan, Step
from fleet.core.run import End, EndReason, RunStatus
from fleet.core.value import Json
from fleet.engine import values
from fleet.engine.deps import Deps
from fleet.engine.paging import outcomes_of, settled_of
from fleet.planning.references import ReferenceFailed, resolve

MOST = 1000
"""Steps whose values an answer lists; of more, only their number."""
NAMED = 5
"""Failed steps that an end names."""


class Good(NamedTuple):
    """Steps that succeeded: how many, and the outcomes of the first MOST."""

    number: int
    first: Mapping[StepId, Outcome]


def end_of(plan: Plan, run: str, deps: Deps) -> End:
    """How a run without a joiner ends: succeeded when every step that the answer needs did. Raises EpochLost."""
    needed = tuple(dict.fromkeys(hole.ref.step for hole in plan.answer_holes)) or plan.sinks()
    good = _good(needed, run, deps)
    if good.number < len(needed):
        return _failed(plan, needed, good, run, deps)
    try:
        answer = _answer(plan, needed, good, run, deps)
    except ReferenceFailed as wrong:
        return End(status=RunStatus.FAILED, reason=EndReason.STEPS_FAILED, detail=wrong.failure.message)
    return End(status=RunStatus.SUCCEEDED, reason=EndReason.FINISHED, answer=answer)


def _good(steps: Sequence[StepId], run: str, deps: Deps) -> Good:
    number = 0
    first: dict[StepId, Outcome] = {}
    for step, outcome in outcomes_of(run, steps, deps):
        number += outcome.ok
        if outcome.ok and number <= MOST:
            first[step] = outcome
    return Good(number, first)


def _answer(plan: Plan, needed: Sequence[StepId], good: Good, run: str, deps: Deps) -> Json:
    if plan.answer is None:
        return values.value_of(good.first[needed[0]], deps) if len(needed) == 1 else _listed(needed, good, deps)
    outcomes = good.first if good.number <= MOST else dict(outcomes_of(run, needed, deps))
    asked = Step(id=StepId("answer"), args={"answer": plan.answer}, holes=_shifted(plan))
    return resolve(asked, lambda step: values.value_of(outcomes[step], deps))["answer"]


def _shifted(plan: Plan) -> tuple[object, ...]:
    return tuple(hole.model_copy(update={"at": ("answer", *hole.at)}) for hole in plan.answer_holes)


def _listed(steps: Sequence[StepId], good: Good, deps: Deps) -> Json:
    if good.number > MOST:
        return {"steps": len(steps), "succeeded": good.number}
    return {step: values.value_of(outcome, deps) for step, outcome in good.first.items()}


def _failed(plan: Plan, needed: Sequence[StepId], good: Good, run: str, deps: Deps) -> End:
    """Names the steps that failed, not those that were skipped because of them."""
    said: list[str] = []
    causes = 0
    for step, outcome in settled_of(run, [step.id for step in plan.steps], deps):
        if outcome.status in (Status.FAILED, Status.LOST):
            causes += 1
            said += [f"step {step}: {_why(outcome)}"] if causes <= NAMED else []
    more = f" and {causes - NAMED} more" if causes > NAMED else ""
    return End(
        status=RunStatus.FAILED,
        reason=EndReason.STEPS_FAILED,
        answer=_listed(needed, good, deps) or None,
        detail=f"{causes} of {len(plan.steps)} steps failed: " + "; ".join(said) + more,
    )


def _why(outcome: Outcome) -> str:
    return f"{outcome.failure.type}: {outcome.failure.message}" if outcome.failure else outcome.status


def partial(plans: Mapping[int, Plan], run: str, deps: Deps) -> Json:
    """The best partial result of a run that ends early: what the last steps of its plans gave, as far as they did."""
    sinks = [step for plan in plans.values() for step in plan.sinks()]
    found = _listed(sinks, _good(sinks, run, deps), deps)
    if found or not plans:
        return found or None
    ids = [step.id for plan in plans.values() for step in plan.steps]
    return _listed(ids, _good(ids, run, deps), deps) or None
