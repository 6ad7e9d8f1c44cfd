"""The answer of a settled plan without a model: what it says its answer is, or what its last steps gave."""

from collections.abc import Mapping, Sequence

from fleet.core.ids import StepId
from fleet.core.outcome import Outcome, Status
from fleet.core.plan import Plan, Step
from fleet.core.run import End, EndReason, RunStatus
from fleet.core.value import Json
from fleet.engine import values
from fleet.engine.deps import Deps
from fleet.planning.references import ReferenceFailed, resolve

MOST = 1000
"""Steps whose values an answer lists; of more, only their number."""


def end_of(plan: Plan, run: str, deps: Deps) -> End:
    """How a run without a joiner ends: succeeded when every step that the answer needs did."""
    needed = tuple(dict.fromkeys(hole.ref.step for hole in plan.answer_holes)) or plan.sinks()
    outcomes = deps.live.runs.outcomes(run, needed)
    missing = [step for step in needed if not (step in outcomes and outcomes[step].ok)]
    if missing:
        return _failed(plan, needed, outcomes, run, deps)
    try:
        answer = _answer(plan, needed, outcomes, deps)
    except ReferenceFailed as wrong:
        return End(status=RunStatus.FAILED, reason=EndReason.STEPS_FAILED, detail=wrong.failure.message)
    return End(status=RunStatus.SUCCEEDED, reason=EndReason.FINISHED, answer=answer)


def _answer(plan: Plan, needed: Sequence[StepId], outcomes: Mapping[StepId, Outcome], deps: Deps) -> Json:
    if plan.answer is not None:
        asked = Step(id=StepId("answer"), args={"answer": plan.answer}, holes=_shifted(plan))
        return resolve(asked, lambda step: values.value_of(outcomes[step], deps))["answer"]
    if len(needed) == 1:
        return values.value_of(outcomes[needed[0]], deps)
    return _listed(needed, outcomes, deps)


def _shifted(plan: Plan) -> tuple[object, ...]:
    return tuple(hole.model_copy(update={"at": ("answer", *hole.at)}) for hole in plan.answer_holes)


def _listed(steps: Sequence[StepId], outcomes: Mapping[StepId, Outcome], deps: Deps) -> Json:
    good = [step for step in steps if step in outcomes and outcomes[step].ok]
    if len(good) > MOST:
        return {"steps": len(steps), "succeeded": len(good)}
    return {step: values.value_of(outcomes[step], deps) for step in good}


def _failed(plan: Plan, needed: Sequence[StepId], outcomes: Mapping[StepId, Outcome], run: str, deps: Deps) -> End:
    """Names the steps that failed, not those that were skipped because of them."""
    ids = [step.id for step in plan.steps]
    everything = deps.live.runs.outcomes(run, ids)
    causes = [s for s in ids if s in everything and everything[s].status in (Status.FAILED, Status.LOST)]
    said = [f"step {s}: {_why(everything[s])}" for s in causes[:5]]
    more = f" and {len(causes) - 5} more" if len(causes) > 5 else ""
    return End(
        status=RunStatus.FAILED,
        reason=EndReason.STEPS_FAILED,
        answer=_listed(needed, outcomes, deps) or None,
        detail=f"{len(causes)} of {len(ids)} steps failed: " + "; ".join(said) + more,
    )


def _why(outcome: Outcome) -> str:
    return f"{outcome.failure.type}: {outcome.failure.message}" if outcome.failure else outcome.status


def partial(plans: Mapping[int, Plan], run: str, deps: Deps) -> Json:
    """The best partial result of a run that ends early: what the last steps of its plans gave, as far as they did."""
    sinks = [step for plan in plans.values() for step in plan.sinks()]
    found = _listed(sinks, deps.live.runs.outcomes(run, sinks), deps)
    if found or not plans:
        return found or None
    ids = [step.id for plan in plans.values() for step in plan.steps]
    return _listed(ids, deps.live.runs.outcomes(run, ids), deps) or None
