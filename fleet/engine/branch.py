"""Retry and fork: a new run that begins with what another one came to.

A run ends once, so neither opens an ended one again: a retry is a further run of the same goal, a fork the first run of
a new one. Outcomes that stand are taken over, and calls that were paid for are answered from the ledger.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from pydantic import ValidationError
from ulid import ULID

from fleet.core.goal import Goal
from fleet.core.ids import PLAN, GoalId, RunId, StepId, join_step, plan_step
from fleet.core.plan import Plan, Step
from fleet.core.run import RunStatus
from fleet.core.value import Json
from fleet.engine import recover, submit
from fleet.engine.deps import Deps
from fleet.engine.past import Past, is_of_engine
from fleet.engine.submit import Handle
from fleet.errors import BadInput, StoreUnreachable, WrongState
from fleet.store.sql.goals import GoalRecord
from fleet.store.sql.takeovers import Call, Takeover

VERSION = "version."
"""Begins what names the checkpoint at which a plan had run, and its joiner had not been asked."""
FORKED_FROM, FORKED_AT = "forked_from", "forked_at"
"""Labels of a fork: the goal it comes from, and where it left it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What a fork does otherwise. goal: fields of the goal, tables within merged. args: arguments of steps, by step.

    redo_writes: whether steps that changed the world may do so again.
    """

    goal: Mapping[str, Json] = field(default_factory=dict)
    args: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    redo_writes: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """Plans up to `planned` are taken over, and all outcomes but those of `again`. name: for people."""

    planned: int
    noted: int
    again: Set[StepId]
    name: str


def retry(record: GoalRecord, step: str, deps: Deps, *, redo_writes: bool = False) -> Handle:
    """Go on with a goal that has ended, from a step on; without one, from all that failed in its last plan.

    Raises WrongState, BadInput, Overloaded.
    """
    past = _ended(record, deps)
    cut = _from(past, step) if step else _failed(past)
    _mind_writes(past, cut, redo_writes)
    calls = [_reopened(call) if redo_writes else call for call in past.paid(cut.again)]
    if step:
        calls = [call for call in calls if call.step != step or call.kind == "tool"]
    return _taken_over(_takeover(past, cut, calls, deps), record.goal, "retry", deps)


def replay(record: GoalRecord, steps: Sequence[StepId], deps: Deps, *, redo_writes: bool = False) -> Handle:
    """As retry, from several steps that took their workers down: from those of the earliest plan among them.

    What they had paid for is not paid again. Raises WrongState, BadInput, Overloaded.
    """
    past = _ended(record, deps)
    first = min(past.version_of(step) for step in steps)
    cuts = [_from(past, step) for step in steps if past.version_of(step) == first]
    again = frozenset[StepId]().union(*(cut.again for cut in cuts))
    planned, noted = min(cut.planned for cut in cuts), min(cut.noted for cut in cuts)
    cut = Cut(planned=planned, noted=noted, again=again, name="what died")
    _mind_writes(past, cut, redo_writes)
    calls = [_reopened(call) if redo_writes else call for call in past.paid(again)]
    return _taken_over(_takeover(past, cut, calls, deps), record.goal, "retry", deps)


def fork(record: GoalRecord, at: str, changes: Changes, deps: Deps) -> Handle:
    """A new goal that begins where another stood: after a step (its id), after a plan (`version.2`), or as it stands.

    What had succeeded by then is taken over; the rest of that plan is run, and the joiner asked anew. The other goal is
    left as it is. Raises BadInput, Overloaded, KeyReused.
    """
    past = Past.read(record, deps)
    cut = _after(past, at)
    plans, changed = _changed(past, cut, changes.args)
    again = cut.again | past.hanging_on(changed, cut.planned)
    cut = Cut(planned=cut.planned, noted=cut.noted, again=again, name=cut.name)
    _mind_writes(past, cut, changes.redo_writes)
    goal = _forked_goal(record, cut, changes.goal)
    calls = [call for call in past.paid(again) if not _others(call) and call.step not in changed]
    taken = _takeover(past, cut, calls, deps)
    new = {"goal_id": GoalId(f"g{deps.ulid()}".lower()), "goal": goal, "plans": plans}
    return _taken_over(taken.model_copy(update=new), goal, "fork", deps)


def _ended(record: GoalRecord, deps: Deps) -> Past:
    if not record.status.ended:
        raise WrongState(f"goal {record.goal_id} is {record.status}: only one that has ended can be retried.")
    if record.goal.deadline and record.goal.deadline.timestamp() <= deps.clock():
        raise WrongState(f"the deadline of goal {record.goal_id} has passed: fork it with another one.")
    return Past.read(record, deps)


def _failed(past: Past) -> Cut:
    version = past.last()
    failed = past.failed(version)
    if past.record.status is RunStatus.SUCCEEDED and not failed:
        raise WrongState(f"nothing of goal {past.record.goal_id} failed: name a step to go on from.")
    again = past.hanging_on(failed, version)
    asks = past.verdict(version) == "ask" and not again
    join = set() if asks else {join_step(version)}
    return Cut(planned=version, noted=version, again=again | join | past.later(version), name="what failed")


def _from(past: Past, step: str) -> Cut:
    """The step is done again, and what depends on it; later plans were made for what it came to, and are not kept."""
    version = past.version_of(step)
    after = past.later(version) | {join_step(version)}
    if step.startswith(PLAN):
        after |= {StepId(step)} | {s for s, of in past.versions.items() if of == version}
        return Cut(planned=version - 1, noted=version - 1, again=after, name=f"step {step}")
    again = set() if is_of_engine(step) else past.hanging_on([StepId(step)], version)
    planner = past.failed(version) & {plan_step(version)}
    return Cut(planned=version, noted=version, again=again | planner | after, name=f"step {step}")


def _after(past: Past, at: str) -> Cut:
    whole = not at or at.startswith(VERSION)
    version = past.last() if not at else _number(at) if whole else past.version_of(at)
    if not 1 <= version <= past.last():
        raise BadInput(f"goal {past.record.goal_id} has no plan {version}: its last one is {past.last()}.")
    if at == join_step(version):
        if not past.goes_on(version):
            raise BadInput(f"nothing follows {at}: fork at the plan ({VERSION}{version}) or at one of its steps.")
        later = past.later(version)
        return Cut(planned=version, noted=version, again=later, name=f"step {at}")
    again = past.hanging_on(past.failed(version), version)
    if at == plan_step(version):
        again |= {step for step, of in past.versions.items() if of == version}
    elif not whole:
        again |= past.hanging_on([StepId(at)], version) - {StepId(at)}
    again |= {join_step(version)} | past.later(version)
    return Cut(planned=version, noted=version, again=again, name=f"{VERSION}{version}" if whole else f"step {at}")


def _number(at: str) -> int:
    number = at.removeprefix(VERSION)
    if not number.isdigit():
        raise BadInput(f"{at} is no plan: write {VERSION}2 for the second one.")
    return int(number)


def _mind_writes(past: Past, cut: Cut, redo: bool) -> None:
    writes = past.writes(cut.again)
    if writes and not redo:
        names = ", ".join(f"{step} ({past.steps[step].tool})" for step in writes[:5])
        raise BadInput(f"{names} changed the world already, and would do so again: begin behind it, or say redo_writes")


def _reopened(call: Call) -> Call:
    """A call in doubt that a person wants made again: under the key that it had."""
    return call.model_copy(update={"state": "failed"}) if call.kind == "tool" and call.state == "open" else call


def _others(call: Call) -> bool:
    """Calls that a fork has no part in: a planner's or joiner's for another goal, a tool's that has not happened."""
    return is_of_engine(call.step) or call.state == "failed"


def _changed(past: Past, cut: Cut, args: Mapping[str, Mapping[str, Json]]) -> tuple[tuple[Plan, ...], set[StepId]]:
    """The plans with other arguments: a new value takes the place of the old one and of the references in it."""
    kept = [plan for version, plan in sorted(past.plans.items()) if version <= cut.planned]
    known = {step.id for plan in kept for step in plan.steps}
    for name in args:
        if name not in known:
            raise BadInput(f"no plan of the fork has a step {name} to change.")
    return tuple(_with_args(plan, args) for plan in kept), {StepId(name) for name in args}


def _with_args(plan: Plan, args: Mapping[str, Mapping[str, Json]]) -> Plan:
    if not any(step.id in args for step in plan.steps):
        return plan
    return plan.model_copy(update={"steps": tuple(_step_with(step, args.get(step.id, {})) for step in plan.steps)})


def _step_with(step: Step, args: Mapping[str, Json]) -> Step:
    holes = tuple(hole for hole in step.holes if hole.at[0] not in args)
    return step.model_copy(update={"args": {**step.args, **args}, "holes": holes}) if args else step


def _forked_goal(record: GoalRecord, cut: Cut, changes: Mapping[str, Json]) -> Goal:
    """The goal with what is changed, under no key and no parent but those it is given. It says what it came from."""
    base = record.goal.model_dump(exclude_unset=True, exclude={"key", "parent"})
    try:
        goal = Goal.model_validate(_merged(base, changes))
    except ValidationError as refused:
        said = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in refused.errors(include_url=False))
        raise BadInput(said) from None
    if goal.tenant != record.goal.tenant or goal.loop != record.goal.loop:
        raise BadInput("a fork keeps the tenant and the loop of its goal.")
    came = {FORKED_FROM: record.goal_id, FORKED_AT: cut.name}
    return goal.model_copy(update={"labels": {**goal.labels, **came}})


def _merged(under: Mapping[str, Json], over: Mapping[str, Json]) -> dict[str, Json]:
    both = {**under, **over}
    for name in under.keys() & over.keys():
        below, above = under[name], over[name]
        if isinstance(below, Mapping) and isinstance(above, Mapping):
            both[name] = _merged(below, above)
    return both


def _takeover(past: Past, cut: Cut, calls: list[Call], deps: Deps) -> Takeover:
    return Takeover(
        origin=past.record.run_id,
        run_id=_run_behind(past.record.run_id, deps),
        goal_id=past.record.goal_id,
        traceparent=deps.telemetry.new_traceparent(),
        plans=tuple(plan for version, plan in sorted(past.plans.items()) if version <= cut.planned),
        noted=cut.noted,
        again=frozenset(cut.again),
        calls=tuple(call for call in calls if call.step not in past.later(cut.planned)),
    )


def _run_behind(origin: RunId, deps: Deps) -> RunId:
    """The newest run of a goal is the one whose id sorts last, though another machine's clock made it."""
    run = f"r{deps.ulid()}".lower()
    return RunId(run if run > origin else f"r{ULID.from_timestamp(recover.accepted_at(origin) + 0.001)}".lower())


def _taken_over(takeover: Takeover, goal: Goal, name: str, deps: Deps) -> Handle:
    """On record in one transaction, then live: what dies in between is launched by a scheduler."""
    full = submit.no_room(goal, {}, deps)
    if full:
        raise full
    deps.crash.reached(name, "before_record")
    deps.record.takeovers.take(takeover)
    deps.crash.reached(name, "after_record")
    try:
        recover.launch(takeover.run_id, deps)
    except StoreUnreachable:
        return Handle(takeover.goal_id, takeover.run_id, new=True, launched=False)
    return Handle(takeover.goal_id, takeover.run_id, new=True)
