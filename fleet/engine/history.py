"""What a run has come to so far, plan by plan: read for the prompts of planner and joiner."""

from collections.abc import Sequence, Set

from fleet.core.ids import RunId, StepId, join_step
from fleet.core.outcome import Outcome, Status
from fleet.core.plan import Plan, Step
from fleet.core.value import Json
from fleet.engine import values
from fleet.engine.deps import Deps
from fleet.engine.paging import outcomes_of, settled_of
from fleet.planning.observations import Round, word_of, worth_showing

SHOWN = 500
"""Steps of one plan that a prompt may show: more would not fit."""


def rounds_of(run: RunId, last: int, deps: Deps) -> tuple[Round, ...]:
    """A Round for each plan version up to `last`, with what its steps came to and why it was not enough."""
    return tuple(round_of(plan, run, deps) for plan in deps.record.plans.all(run) if plan.version <= last)


def round_of(plan: Plan, run: RunId, deps: Deps) -> Round:
    """Of a plan with more than SHOWN steps, only those are read again and shown that are worth it."""
    join = join_step(plan.version)
    verdict = deps.live.runs.outcomes(run, [join]).get(join)
    reason = _reason(run, plan.version, verdict.value, deps) if verdict else ""
    statuses = _statuses(plan, run, deps)
    shown = worth_showing(list(statuses.values()), [1] * len(statuses), SHOWN)
    unread = {step: status for at, (step, status) in enumerate(statuses.items()) if at not in shown}
    outcomes = _shown([step for step in plan.steps if step.id not in unread], run, deps)
    return Round(plan=plan, outcomes=outcomes, unread=unread, verdict=reason)


def _statuses(plan: Plan, run: RunId, deps: Deps) -> dict[StepId, str]:
    """What became of each step, in a word; nothing is looked up where all of them are shown anyway."""
    ids = [step.id for step in plan.steps]
    found = {step: word_of(outcome) for step, outcome in settled_of(run, ids, deps)} if len(ids) > SHOWN else {}
    return {step: found.get(step, word_of(None)) for step in ids}


def _shown(steps: Sequence[Step], run: RunId, deps: Deps) -> dict[StepId, Outcome]:
    found = dict(settled_of(run, [step.id for step in steps], deps))
    skipped = [step for step in steps if step.id in found and found[step.id].status is Status.SKIPPED]
    needs = [need for step in skipped for need in step.needs if need not in found]
    bad = {step for step, outcome in outcomes_of(run, needs, deps) if not outcome.ok}
    bad |= {step for step, outcome in found.items() if not outcome.ok}
    by_id = {step.id: step for step in steps}
    return {step: _at_hand(by_id[step], outcome, bad, deps) for step, outcome in found.items()}


def _reason(run: RunId, version: int, verdict: Json, deps: Deps) -> str:
    """Why a further plan is wanted: the joiner's reason, or its question with a person's answer."""
    if not isinstance(verdict, dict):
        return ""
    asked = deps.record.answers.of(run, join_step(version)) if verdict.get("kind") == "ask" else None
    if asked is not None:
        return f"asked: {asked.question} answered: {asked.answer or 'not yet'}"
    return str(verdict.get("reason", ""))


def _at_hand(step: Step, outcome: Outcome, bad: Set[StepId], deps: Deps) -> Outcome:
    """With its value at hand, wherever it is kept; a skipped one with the needs that did not succeed."""
    if outcome.status is Status.SKIPPED:
        return outcome.model_copy(update={"because": tuple(need for need in step.needs if need in bad)})
    if outcome.artifact is None:
        return outcome
    return outcome.model_copy(update={"value": values.value_of(outcome, deps)})
