"""Runs a join step: looks at what a plan came to, and finishes, replans or asks."""

import logging
from collections.abc import Mapping
from concurrent.futures import CancelledError

from fleet.core.goal import Goal
from fleet.core.ids import JOIN, RunId, StepId, join_step, plan_step, version_of
from fleet.core.outcome import Failure, FailureClass, Outcome, Status
from fleet.core.plan import Plan, Problem, Step
from fleet.core.run import End, EndReason, RunStatus
from fleet.core.value import Json
from fleet.core.verdict import Ask, Finish, Replan, Verdict
from fleet.engine import answers, collect, failing, stopping
from fleet.engine.calls import LedgeredModel, usage_of
from fleet.engine.deps import Deps
from fleet.engine.history import rounds_of
from fleet.engine.holding import Hold
from fleet.engine.moves import Result, Settle
from fleet.engine.paging import settled_of
from fleet.llm.port import Model, ModelFailed, ModelRequest
from fleet.planning.prompts import joiner_messages, repair_messages
from fleet.planning.verdicts import parse_verdict
from fleet.store.runs import RunClosed

log = logging.getLogger("fleet.join")
REASONS = {
    "no_progress": EndReason.NO_PROGRESS,
    "plan_rejected": EndReason.PLAN_REJECTED,
    "too_many_steps": EndReason.TOO_MANY_STEPS,
    "over_budget": EndReason.OVER_BUDGET,
}
"""How a run ends when its plan step failed this way; any other way: planner_failed."""


def run(hold: Hold, deps: Deps) -> Result:
    """Every way out of here either ends the run, or adds the next plan step, or leaves a question that is open."""
    attempt = hold.attempt
    run_id, version = attempt.context.run, version_of(attempt.step.id)
    goal = deps.goal_of(run_id).goal
    plans = {plan.version: plan for plan in deps.record.plans.all(run_id)}
    if version not in plans:
        return _planless(hold, plans, deps)
    if goal.loop == "plan":
        return _settled(hold, deps, collect.end_of(plans[version], run_id, deps))
    try:
        verdict = _asked(hold, goal, version, deps)
    except ModelFailed as failed:
        result = failing.decide(attempt, failed.failure, failing.MODEL_RETRIES, deps)
        return _given_up(hold, plans, result, deps) if isinstance(result, Settle) else result
    except RunClosed:
        used = usage_of(attempt, deps)
        return Settle(outcome=Outcome(status=Status.CANCELLED, usage=used, attempts=attempt.number))
    return _heed(hold, verdict, goal, plans, deps)


def _planless(hold: Hold, plans: Mapping[int, Plan], deps: Deps) -> Result:
    """The planner gave no plan: the run ends with its failure and what earlier plans came to."""
    run_id, version = hold.attempt.context.run, version_of(hold.attempt.step.id)
    planned = dict(settled_of(run_id, [plan_step(version)], deps))[plan_step(version)]
    failure = planned.failure
    kind, message = (failure.type, failure.message) if failure else ("planner_lost", "the plan step was lost")
    end = End(
        status=RunStatus.FAILED,
        reason=REASONS.get(kind, EndReason.PLANNER_FAILED),
        answer=collect.partial(plans, run_id, deps),
        detail=message,
    )
    return _settled(hold, deps, end)


def _asked(hold: Hold, goal: Goal, version: int, deps: Deps) -> Verdict:
    """The joiner's verdict; asked to say it again once when it can't be read. Raises ModelFailed, RunClosed."""
    if deps.models.planner is None:
        raise ModelFailed(Failure(type="no_joiner", message="no joiner is configured: set FLEET_PLANNER_MODEL"))
    model = LedgeredModel(deps.models.planner, hold.attempt, deps)
    messages = joiner_messages(goal, rounds_of(hold.attempt.context.run, version, deps))
    settings = deps.settings
    for again in (True, False):
        request = ModelRequest(
            purpose="joiner", messages=messages, max_tokens=settings.model_max_tokens, timeout=settings.model_timeout
        )
        text = _told(hold, model, request, deps)
        found = parse_verdict(text)
        if not isinstance(found, Problem):
            return found
        if again:
            messages = repair_messages(messages, text, (found,), template="joiner_repair")
    failure = Failure(
        cls=FailureClass.PERMANENT, type="verdict_unreadable", message=f"{found}. It wrote: {text[:2000]}"
    )
    raise ModelFailed(failure)


def _told(hold: Hold, model: Model, request: ModelRequest, deps: Deps) -> str:
    try:
        return deps.portal.run(model.complete(request), stopping.ends_with(hold)).text
    except CancelledError:
        raise stopping.reason(hold, deps) from None


def _given_up(hold: Hold, plans: Mapping[int, Plan], result: Settle, deps: Deps) -> Result:
    failure = result.outcome.failure
    kind = failure.type if failure else ""
    end = End(
        status=RunStatus.FAILED,
        reason=REASONS.get(kind, EndReason.JOINER_FAILED),
        answer=collect.partial(plans, hold.attempt.context.run, deps),
        detail=failure.message if failure else "",
    )
    return Settle(outcome=result.outcome, end=end)


def _heed(hold: Hold, verdict: Verdict, goal: Goal, plans: Mapping[int, Plan], deps: Deps) -> Result:
    run_id, version = hold.attempt.context.run, version_of(hold.attempt.step.id)
    said = verdict.model_dump(mode="json")
    match verdict:
        case Finish(answer=answer):
            end = End(status=RunStatus.SUCCEEDED, reason=EndReason.FINISHED, answer=answer)
            return _settled(hold, deps, end, said)
        case Replan(reason=reason):
            if version > goal.budget.replans:
                detail = f"{version - 1} replans were allowed; the joiner wants another: {reason}"
                partial = collect.partial(plans, run_id, deps)
                end = End(
                    status=RunStatus.FAILED, reason=EndReason.TOO_MANY_REPLANS, answer=partial, detail=detail
                )  # fmt: skip
                return _settled(hold, deps, end, said)
            deps.crash.reached("join", "mid_replan")
            add_round(run_id, version + 1, deps)
            return _settled(hold, deps, None, said)
        case Ask(question=question):
            answers.ask(run_id, hold.attempt.step.id, question, deps)
            return _settled(hold, deps, None, said)


def end_without(run_id: RunId, step: StepId, stands: Outcome, deps: Deps) -> End | None:
    """How a run ends whose join step came to `stands` without its end: it was lost, or failed in the engine.

    None for any other step, for a verdict after which the run goes on, and where the run is being cancelled anyway.
    """
    if not step.startswith(JOIN) or deps.live.runs.about(run_id).get("status") == RunStatus.CANCELLING:
        return None
    verdict = stands.value if isinstance(stands.value, dict) else {}
    if verdict.get("kind") in ("replan", "ask"):
        return None
    if verdict.get("kind") == "finish":
        return End(status=RunStatus.SUCCEEDED, reason=EndReason.FINISHED, answer=verdict.get("answer"))
    plans = {plan.version: plan for plan in deps.record.plans.all(run_id)}
    if stands.ok and deps.goal_of(run_id).goal.loop == "plan" and 1 in plans:
        return collect.end_of(plans[1], run_id, deps)
    return End(
        status=RunStatus.FAILED,
        reason=EndReason.JOINER_FAILED,
        answer=_kept(plans, run_id, deps),
        detail=stands.failure.message if stands.failure else "",
    )


def _kept(plans: Mapping[int, Plan], run_id: RunId, deps: Deps) -> Json:
    """The best partial result, unless it can't be read: a run has to end all the same."""
    try:
        return collect.partial(plans, run_id, deps)
    except Exception:
        log.exception("no partial result", extra={"run": run_id})
        return None


def add_round(run_id: str, version: int, deps: Deps) -> None:
    """Add the steps that write and join plan `version`. Adding them again changes nothing."""
    try:
        deps.live.runs.add(run_id, engine_steps(version, deps))
    except RunClosed:
        return


def engine_steps(version: int, deps: Deps) -> list[Step]:
    """The plan step and the join step of a version.

    A further plan waits for the verdict that asks for it: the reason is read from that outcome, and the steps are added
    before it stands.
    """
    timeout = deps.settings.model_timeout * 3
    needs = (join_step(version - 1),) if version > 1 else ()
    plan = Step(id=plan_step(version), kind="plan", needs=needs, timeout=timeout)
    return [plan, joining(version, deps)]


def joining(version: int, deps: Deps) -> Step:
    return Step(id=join_step(version), kind="join", timeout=deps.settings.model_timeout * 3)


def _settled(hold: Hold, deps: Deps, end: End | None, value: Json = None) -> Settle:
    attempt = hold.attempt
    usage = usage_of(attempt, deps) if value is not None else None
    outcome = Outcome(status=Status.SUCCEEDED, value=value, attempts=attempt.number)
    return Settle(outcome=outcome.model_copy(update={"usage": usage}) if usage else outcome, end=end)
