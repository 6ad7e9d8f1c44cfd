"""What a run has come to so far, plan by plan: read for the prompts of planner and joiner."""

from collections.abc import Mapping

from fleet.core.ids import RunId, StepId, join_step
from fleet.core.outcome import Outcome, Status
from fleet.core.plan import Plan, Step
from fleet.core.value import Json
from fleet.engine import values
from fleet.engine.deps import Deps
from fleet.planning.prompts import Round


def rounds_of(run: RunId, last: int, deps: Deps) -> tuple[Round, ...]:
    """A Round for each plan version up to `last`, with what its steps came to and why it was not enough."""
    return tuple(round_of(plan, run, deps) for plan in deps.record.plans.all(run) if plan.version <= last)


def round_of(plan: Plan, run: RunId, deps: Deps) -> Round:
    ids = [step.id for step in plan.steps]
    found = deps.live.runs.outcomes(run, [*ids, join_step(plan.version)])
    verdict = found.pop(join_step(plan.version), None)
    by_id = {step.id: step for step in plan.steps}
    ended = deps.live.runs.outcomes(run, [need for step in plan.steps for need in step.needs if need not in found])
    ended |= found
    outcomes = {i: _shown(by_id[i], outcome, ended, deps) for i, outcome in found.items()}
    reason = _reason(run, plan.version, verdict.value, deps) if verdict else ""
    return Round(plan=plan, outcomes=outcomes, verdict=reason)


def _reason(run: RunId, version: int, verdict: Json, deps: Deps) -> str:
    """Why a further plan is wanted: the joiner's reason, or its question with a person's answer."""
    if not isinstance(verdict, dict):
        return ""
    asked = deps.record.answers.of(run, join_step(version)) if verdict.get("kind") == "ask" else None
    if asked is not None:
        return f"asked: {asked.question} answered: {asked.answer or 'not yet'}"
    return str(verdict.get("reason", ""))


def _shown(step: Step, outcome: Outcome, ended: Mapping[StepId, Outcome], deps: Deps) -> Outcome:
    """With its value at hand, wherever it is kept; a skipped one with the needs that did not succeed."""
    if outcome.status is Status.SKIPPED:
        because = tuple(need for need in step.needs if need in ended and not ended[need].ok)
        return outcome.model_copy(update={"because": because})
    if outcome.artifact is None:
        return outcome
    return outcome.model_copy(update={"value": values.value_of(outcome, deps)})
