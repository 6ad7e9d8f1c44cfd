"""Whether a step started before what it needs had ended, as its join policy says."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from fleet.core.events import Event, EventType
from fleet.core.ids import JOIN, PLAN, StepId, join_step, version_of
from fleet.core.outcome import Status
from fleet.core.plan import AnyOf, BestEffort, Quorum, Settled, Step
from fleet.testing.history import RunHistory


@dataclass
class Seen:
    """What the events of one epoch told so far. added: when a step was added, in seconds since 1970."""

    added: dict[str, float] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)


def started_early(run: RunHistory) -> Iterator[tuple[StepId, str]]:
    """Each start that came too early, and what was missing."""
    seen, epoch = Seen(), ""
    present = _added(run)
    for event in run.events:
        if (now := event.id.partition("-")[0]) != epoch:
            seen, epoch = Seen(), now
        if event.type is EventType.STEP_ADDED:
            seen.added[event.step] = event.at
        elif event.type is EventType.STEP_ENDED:
            seen.ended[event.step] = str(event.data.get("status"))
        elif event.type is EventType.STEP_STARTED and (missing := _missing(event, run, seen, present[epoch])):
            yield StepId(event.step), f"started as {event.id} before {missing}"


def _added(run: RunHistory) -> dict[str, set[str]]:
    """The steps that each epoch added. What it did not add, it had from the record, and ended."""
    found: dict[str, set[str]] = {}
    for event in run.events:
        steps = found.setdefault(event.id.partition("-")[0], set())
        if event.type is EventType.STEP_ADDED:
            steps.add(event.step)
    return found


def _missing(event: Event, run: RunHistory, seen: Seen, present: set[str]) -> str:
    """What the step should have waited for; empty where nothing was missing."""
    if event.step.startswith(JOIN):
        version = version_of(StepId(event.step))
        return _listed(sorted(step for step in seen.added.keys() - seen.ended.keys() if _precedes(step, version)))
    if event.step.startswith(PLAN):
        version = version_of(StepId(event.step))
        needs = [join_step(version - 1)] if version > 1 else []
        return _listed([need for need in needs if _status(need, run, seen, present) != Status.SUCCEEDED])
    step = run.steps.get(StepId(event.step))
    return _unmet(step, event, run, seen, present) if step is not None else ""


def _precedes(step: str, version: int) -> bool:
    """A joiner adds the next planner before its own outcome stands, and may be lost in between."""
    return not step.startswith(JOIN) and not (step.startswith(PLAN) and version_of(StepId(step)) > version)


def _unmet(step: Step, event: Event, run: RunHistory, seen: Seen, present: set[str]) -> str:
    states = {need: _status(need, run, seen, present) for need in step.needs}
    good = sum(state == Status.SUCCEEDED for state in states.values())
    open_ = [need for need, state in states.items() if state is None]
    match step.join:
        case AnyOf() if step.needs:
            return "" if good >= 1 else f"one of {', '.join(step.needs)} had succeeded"
        case Quorum(k=k):
            return "" if good >= k else f"{k} of {', '.join(step.needs)} had succeeded, and not {good}"
        case Settled():
            return _listed(open_)
        case BestEffort(within=within):
            waited = event.at - seen.added.get(step.id, event.at)
            return "" if waited >= within - 0.002 else _listed(open_)
    return _listed([need for need, state in states.items() if state != Status.SUCCEEDED])


def _status(step: StepId, run: RunHistory, seen: Seen, present: set[str]) -> str | None:
    """How the step had ended by then; None while it had not."""
    if step in seen.ended or step in present:
        return seen.ended.get(step)
    stands = run.outcomes.get(step)
    return stands.status if stands is not None else None


def _listed(steps: list[StepId] | list[str]) -> str:
    return f"{', '.join(steps)} had ended" if steps else ""
