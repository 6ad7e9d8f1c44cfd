"""Runs a plan step: asks the planner, and lets ready steps start while it is still writing.

A `pure` or `reads` step is added to the run as soon as its line is complete and checked; `writes` steps, and what hangs
on them, wait for the whole plan. What ran is fact: a planner that is asked again (it died, it was refused, its plan was
not enough) is merged with what is there, by equality and not by number.
"""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, field

from fleet.core.attempt import Attempt
from fleet.core.events import EventType
from fleet.core.goal import Goal
from fleet.core.ids import RunId, StepId, version_of
from fleet.core.outcome import Failure, FailureClass, Outcome, Status
from fleet.core.plan import Effect, Plan, Problem, Step
from fleet.core.tool import ToolSpec
from fleet.engine import failing, stopping
from fleet.engine.calls import LedgeredModel, usage_of
from fleet.engine.deps import Deps
from fleet.engine.history import rounds_of
from fleet.engine.holding import Hold
from fleet.engine.moves import Result, Settle
from fleet.engine.paging import outcomes_of
from fleet.llm.port import Message, ModelFailed, ModelRequest, Reply
from fleet.planning.compile import LineCompiler
from fleet.planning.grammar import PlanParser
from fleet.planning.merge import Alias, Merger
from fleet.planning.paths import remaining
from fleet.planning.prompts import planner_messages, repair_messages, replan_messages
from fleet.planning.scope import Limits
from fleet.store.runs import RunClosed

SHOWN = 2000
"""Characters of a refused plan that the failure shows."""


class PlannerMissing(ModelFailed):
    """No planner is configured where a plan has to be written."""

    def __init__(self) -> None:
        message = "no planner is configured: set FLEET_PLANNER_MODEL (or FLEET_MODEL_SCRIPT), or submit a plan"
        super().__init__(Failure(cls=FailureClass.PERMANENT, type="no_planner", message=message))


@dataclass(kw_only=True)
class Draft:
    """One answer of the planner on its way into the run."""

    compiler: LineCompiler
    merger: Merger
    held: set[StepId] = field(default_factory=set)
    text: str = ""


@dataclass(kw_only=True)
class Writing:
    """Everything a plan step knows. earlier: the steps of earlier versions."""

    hold: Hold
    deps: Deps
    goal: Goal
    version: int
    model: LedgeredModel
    specs: dict[str, ToolSpec]
    earlier: set[StepId]


def run(hold: Hold, deps: Deps) -> Result:
    """Writes plan `version`, repairs it once if it is refused, and records it. One that is on record is followed."""
    attempt = hold.attempt
    try:
        found = _recorded(attempt, deps) or _written(hold, deps)
        if isinstance(found, Failure):
            return failing.decide(attempt, found, failing.MODEL_RETRIES, deps)
        _wanted(hold, deps)
        plan = _accept(attempt, found, deps)
    except ModelFailed as failed:
        return failing.decide(attempt, failed.failure, failing.MODEL_RETRIES, deps)
    except RunClosed:
        used = usage_of(attempt, deps)
        return Settle(outcome=Outcome(status=Status.CANCELLED, usage=used, attempts=attempt.number))
    value = {"version": plan.version, "steps": len(plan.steps)}
    outcome = Outcome(
        status=Status.SUCCEEDED, value=value, usage=usage_of(attempt, deps), attempts=attempt.number
    )  # fmt: skip
    return Settle(outcome=outcome)


def _recorded(attempt: Attempt, deps: Deps) -> Plan | None:
    """The plan that an attempt before this one put on record: its steps may run already, under its ids."""
    version = version_of(attempt.step.id)
    return next((plan for plan in deps.record.plans.all(attempt.context.run) if plan.version == version), None)


def _written(hold: Hold, deps: Deps) -> Plan | Failure:
    writing = _begin(hold, deps)
    return _drafted(writing, _first_messages(writing))


def _wanted(hold: Hold, deps: Deps) -> None:
    """Fences the planner: one that lost its lease, or whose run is cancelled, changes the run no more."""
    if hold.stopped and hold.why != "DEADLINE":
        raise stopping.reason(hold, deps)


def _begin(hold: Hold, deps: Deps) -> Writing:
    attempt = hold.attempt
    run_id = attempt.context.run
    if deps.models.planner is None:
        raise PlannerMissing
    version = version_of(attempt.step.id)
    earlier = {step.id for plan in deps.record.plans.all(run_id) if plan.version < version for step in plan.steps}
    return Writing(
        hold=hold,
        deps=deps,
        goal=deps.goal_of(run_id).goal,
        version=version,
        model=LedgeredModel(deps.models.planner, attempt, deps),
        specs={spec.name: spec for spec in deps.registry.specs()},
        earlier=earlier,
    )


def _first_messages(writing: Writing) -> tuple[Message, ...]:
    goal, deps = writing.goal, writing.deps
    allowed = [spec for name, spec in writing.specs.items() if not goal.tools or name in goal.tools]
    if writing.version == 1:
        return planner_messages(goal, allowed, 1)
    rounds = rounds_of(writing.hold.attempt.context.run, writing.version - 1, deps)
    highest = max((int(step) for step in writing.earlier if step.isdigit()), default=0)
    return replan_messages(goal, allowed, rounds, rounds[-1].verdict, highest + 2)


def _drafted(writing: Writing, messages: tuple[Message, ...]) -> Plan | Failure:
    """The planner's plan; asked to repair it once when it was refused."""
    draft = _stream(writing, messages)
    found = _finish(writing, draft)
    if isinstance(found, Plan):
        return found
    again = _stream(writing, repair_messages(messages, draft.text, found))
    mended = _finish(writing, again)
    if isinstance(mended, Plan):
        return mended
    said = "; ".join(str(problem) for problem in mended[:10])
    kind = mended[0].code if mended[0].code in ("no_progress", "too_many_steps") else "plan_rejected"
    message = f"the planner's plan was refused twice: {said}. It wrote: {again.text[:SHOWN]}"
    return Failure(cls=FailureClass.PERMANENT, type=kind, message=message)


def _stream(writing: Writing, messages: tuple[Message, ...]) -> Draft:
    """Reads one answer as it comes, and starts what may start."""
    deps, run_id = writing.deps, writing.hold.attempt.context.run
    there = {i: s for i, s in deps.live.runs.steps(run_id).items() if s.kind == "tool"}
    noted = deps.record.plans.noted(run_id)
    there |= _added([s for v, s in noted if v == writing.version and s.id not in there], run_id, deps)
    # A step that was dropped may have an outcome or a call on record: its id is never given to another.
    dropped = {step.id: step for _, step in noted if step.id not in there}
    existing = {**there, **dropped}
    # What failed in an earlier version may be tried again; what failed in this one, before its planner was asked again,
    # is a fact for the joiner to see.
    failed = {i for i, o in outcomes_of(run_id, sorted(writing.earlier), deps) if not o.ok}
    known = {i: s for i, s in existing.items() if i in writing.earlier and i not in failed}
    merger = Merger(existing, failed | dropped.keys())
    compiler = LineCompiler(writing.specs, merger.next_id, known, _limits(writing))
    draft = Draft(compiler=compiler, merger=merger)
    parser = PlanParser()
    for chunk in _chunks(writing, messages, draft):
        for raw in parser.feed(chunk):
            _take(writing, draft, compiler.line(raw))
    for raw in parser.close():
        _take(writing, draft, compiler.line(raw))
    return draft


def _added(noted: list[Step], run_id: RunId, deps: Deps) -> dict[StepId, Step]:
    """Steps that an earlier try at this version put on record and did not come to add: they keep their ids."""
    for step in noted:
        deps.live.runs.add(run_id, [step])
    return {step.id: step for step in noted}


def _limits(writing: Writing) -> Limits:
    """What is left of the goal's bounds for this plan."""
    limits, budget = Limits.of(writing.goal), writing.goal.budget
    steps = budget.steps - len(writing.earlier)
    if steps < 1:
        message = f"the goal's {budget.steps} steps are used up"
        raise ModelFailed(Failure(cls=FailureClass.BUDGET, type="too_many_steps", message=message))
    money = budget.money
    if money is not None:
        used = writing.deps.record.ledger.usage(writing.hold.attempt.context.run).money
        money = max(0.0, money - used)
    return limits.model_copy(update={"steps": steps, "money": money})


def _chunks(writing: Writing, messages: tuple[Message, ...], draft: Draft) -> Iterator[str]:
    settings = writing.deps.settings
    request = ModelRequest(
        purpose="planner",
        messages=messages,
        max_tokens=settings.model_max_tokens,
        timeout=settings.model_timeout,
    )
    try:
        for item in writing.deps.portal.iterate(writing.model.stream(request), stopping.ends_with(writing.hold)):
            if isinstance(item, Reply):
                draft.text = item.text
            else:
                yield item
    except CancelledError:
        raise stopping.reason(writing.hold, writing.deps) from None


def _take(writing: Writing, draft: Draft, line: Step | tuple[Problem, ...]) -> None:
    """Adds a checked line to the run at once, unless it writes or hangs on one that does."""
    if isinstance(line, tuple):
        return
    kept = draft.merger.add(line)
    if isinstance(kept, Alias):
        return
    if kept.effect is Effect.WRITES or draft.held.intersection(kept.needs) or draft.compiler.problems:
        draft.held.add(kept.id)
        return
    _wanted(writing.hold, writing.deps)
    run_id = writing.hold.attempt.context.run
    writing.deps.record.plans.note_steps(run_id, writing.version, [kept])
    writing.deps.live.runs.add(run_id, [kept])
    writing.deps.crash.reached("plan", "mid_plan_stream")


def _finish(writing: Writing, draft: Draft) -> Plan | tuple[Problem, ...]:
    """The version's plan: its new steps, and those that an earlier try at it left in the run."""
    run_id = writing.hold.attempt.context.run
    taken_over = [
        step
        for step in writing.deps.live.runs.steps(run_id).values()
        if step.id in draft.merger.aliases.values() and step.id not in writing.earlier and step.kind == "tool"
    ]
    written = {step.id: n for n, (_, step) in enumerate(writing.deps.record.plans.noted(run_id))}
    taken_over.sort(key=lambda step: written.get(step.id, len(written)))
    new = {step.id: step for step in [*taken_over, *draft.merger.steps]}
    if not new and not draft.compiler.problems and writing.version > 1:
        message = "the new plan holds no step that was not done already: no progress"
        return (Problem(code="no_progress", message=message),)
    return draft.compiler.finish(writing.version, draft.text, list(new.values()))


def _accept(attempt: Attempt, plan: Plan, deps: Deps) -> Plan:
    """Records the plan, drops what it does not want, adds what waited for it. Gives the plan that stands: the first."""
    run_id = attempt.context.run
    stands = deps.record.plans.save(run_id, plan)
    wanted = {step.id for each in deps.record.plans.all(run_id) for step in each.steps}
    noted = (step.id for version, step in deps.record.plans.noted(run_id) if version == stands.version)
    stray = [step for step in noted if step not in wanted]
    if stray:
        deps.live.runs.drop(run_id, stray)
    deps.live.runs.add(run_id, stands.steps, remaining(stands.steps))
    about = {"version": stands.version, "steps": len(stands.steps)}
    deps.live.runs.note(run_id, EventType.PLANNED, attempt.step.id, about)
    return stands
