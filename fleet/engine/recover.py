"""Rebuild live state from the record: a run that has none, or all of them when Redis lost everything."""

import json
import logging
import time

from ulid import ULID

from fleet.core.events import Event, EventType
from fleet.core.ids import JOIN, RunId, StepId, join_step, plan_step
from fleet.core.outcome import Outcome
from fleet.core.plan import Plan, Step
from fleet.core.run import RunStatus
from fleet.engine import answers, cancel, join, opening, pause
from fleet.engine.deps import Deps
from fleet.errors import ClockSimulated, StoreUnreachable
from fleet.planning.paths import remaining
from fleet.store.epoch import OPENING
from fleet.store.steps import end_data

log = logging.getLogger("fleet.recover")
PAGE = 200
LAUNCH = 5.0
"""Seconds that a producer is left to launch what it had accepted."""
WAIT = 0.05


def ensure_epoch(deps: Deps) -> bool:
    """Open a new epoch where Redis holds none; True when this process did. The record only ever counts up.

    What is left of an earlier epoch is wiped first. A process that comes second waits for the one that opens it.
    Raises ClockSimulated in the namespace of a simulation, unless it is a part of that.
    """
    if not deps.simulated and deps.live.epochs.simulated():
        name = deps.settings.namespace
        raise ClockSimulated(f"namespace {name} is a simulation's, with a clock of its own: set FLEET_NAMESPACE")
    until = time.monotonic() + OPENING
    while deps.live.epoch() is None:
        if deps.live.epochs.take():
            return _open_epoch(deps)
        if time.monotonic() > until:
            raise StoreUnreachable("another process opens a new epoch and does not get done")
        deps.sleep(WAIT)
    return False


def _open_epoch(deps: Deps) -> bool:
    try:
        if deps.live.epoch() is not None:
            return False
        epoch = deps.record.epochs.raise_to(deps.record.epochs.current())
        deps.live.epochs.wipe()
        deps.live.set_epoch(epoch)
    finally:
        deps.live.epochs.leave()
    log.warning("epoch %d opened", epoch)
    return True


def beat(deps: Deps) -> bool:
    """Count a beat in Redis, then on record. True when Redis is older than the record says: then a new epoch is open.

    Redis comes first, so that a process that dies in between leaves Redis ahead, which is no sign of a loss.
    """
    epochs, epoch = deps.record.epochs, deps.live.epoch()
    if epoch is None:
        return ensure_epoch(deps)
    last, current = epochs.last_beat(), epochs.current()
    n = deps.live.epochs.beat()
    if epoch < current or (last is not None and last.epoch == epoch and n <= last.n):
        log.error("Redis is older than the record says: every open run is rebuilt")
        deps.live.epochs.close()
        return ensure_epoch(deps)
    epochs.beat(epoch, n)
    return False


def rebuild_missing(deps: Deps, *, young: bool = True) -> int:
    """Rebuild every open run that has no live state: how many there were. young: also those just accepted, which their
    producer may still be launching."""
    rebuilt, after = 0, None
    while page := deps.record.goals.open_runs(after, PAGE):
        after = page[-1][0]
        runs = [run for run, _ in page if young or abs(deps.clock() - accepted_at(run)) > LAUNCH]
        for run in deps.live.runs.missing(runs):
            rebuilt += _rebuilt(RunId(run), deps)
    return rebuilt


def tell_ends(deps: Deps) -> int:
    """File an end for each run that has ended, and whose events Redis lost before they were filed: how many there were.

    Whoever follows a run hears of its end even then. To be done after a new epoch was opened. Safe to do twice.
    """
    told, after, epoch = 0, None, deps.live.epoch()
    while epoch is not None and (page := deps.record.events.untold(after, PAGE)):
        after = page[-1]
        for run in map(RunId, deps.live.runs.missing(page)):
            deps.record.events.store(run, _end_alone(run, epoch, deps))
            told += 1
    if told:
        log.warning("%d runs had ended, and Redis lost what happened in them", told)
    return told


def _end_alone(run: RunId, epoch: int, deps: Deps) -> list[Event]:
    record = deps.record.goals.of_run(run)
    at = record.ended.timestamp() if record.ended else deps.clock()
    data = json.loads(end_data(record.end)) if record.end else {}
    return [
        Event(id=f"{epoch}-1", type=EventType.REBUILT, at=at),
        Event(id=f"{epoch}-2", type=EventType.ENDED, at=at, data=data),
    ]


def accepted_at(run: RunId) -> float:
    """When a run was accepted, by the clock of its producer (seconds since 1970): its id says so."""
    return ULID.from_str(run[1:].upper()).timestamp


def _rebuilt(run: RunId, deps: Deps) -> bool:
    """A run that can't be rebuilt does not keep the others waiting."""
    try:
        rebuild(run, deps)
    except StoreUnreachable:
        raise
    except Exception:
        log.exception("run can't be rebuilt", extra={"run": run})
        return False
    return True


def go_on(deps: Deps) -> None:
    """Runs that a process left half-way between record and live state: a cancellation, a pause, an answer.

    Safe to do twice.
    """
    for record in deps.record.goals.list(status=RunStatus.CANCELLING, limit=PAGE):
        cancel.cancel(record.run_id, deps)
    pause.go_on(deps)
    for run, step in deps.record.answers.unheeded(PAGE):
        answers.resume(run, step, deps)


def rebuild(run: RunId, deps: Deps) -> None:
    """A run's live state, from its goal, plans and outcomes. Adding what is there changes nothing: safe to do twice."""
    log.warning("run rebuilt from the record", extra={"run": run})
    launch(run, deps, EventType.REBUILT)


def launch(run: RunId, deps: Deps, event: EventType = EventType.ACCEPTED) -> None:
    """As rebuild, for a run that begins with what another one came to."""
    record = deps.record.goals.of_run(run)
    if record.status.ended:
        return
    plans = deps.record.plans.all(run)
    outcomes: dict[StepId, Outcome] = {s: o for page in deps.record.outcomes.pages(run) for s, o in page}
    outcomes = {s: o for s, o in outcomes.items() if not _ends(s, o)}
    opening.open_recorded(record, deps, event)
    if record.status is RunStatus.PAUSED:
        pause.hold(record, deps)  # before it has a step that could start
    if record.goal.loop == "plan" and plans:
        _restore(run, [*plans[0].steps, join.joining(1, deps)], outcomes, deps)
    else:
        _replay(run, plans, outcomes, deps)
    if record.status is RunStatus.CANCELLING:
        cancel.cancel(run, deps)


def _ends(step: StepId, outcome: Outcome) -> bool:
    """Whether it is the outcome of a join step that ended the run: it runs again, since that end is not on record."""
    verdict = outcome.value if isinstance(outcome.value, dict) else {}
    return step.startswith(JOIN) and verdict.get("kind") not in ("replan", "ask")


def _replay(run: RunId, plans: tuple[Plan, ...], outcomes: dict[StepId, Outcome], deps: Deps) -> None:
    """Version by version, as the run grew: planned steps, those of a plan not yet complete, and the engine's own."""
    by_version = {plan.version: list(plan.steps) for plan in plans}
    for version, step in deps.record.plans.noted(run):
        if version not in {plan.version for plan in plans}:
            by_version.setdefault(version, []).append(step)
    version = 1
    while True:
        steps = [*join.engine_steps(version, deps)[:1], *by_version.get(version, []), join.joining(version, deps)]
        _restore(run, steps, outcomes, deps)
        verdict = outcomes.get(join_step(version))
        if verdict is None or plan_step(version) not in outcomes:
            return
        kind = verdict.value.get("kind") if isinstance(verdict.value, dict) else ""
        asked = deps.record.answers.of(run, join_step(version)) if kind == "ask" else None
        if kind == "ask" and (asked is None or asked.answer is None):
            deps.live.runs.note(run, EventType.ASKED, join_step(version), status=RunStatus.ASKING)
            deps.record.goals.set_status(run, RunStatus.ASKING)
            return
        if kind not in ("replan", "ask"):
            return
        version += 1


def _restore(run: RunId, steps: list[Step], outcomes: dict[StepId, Outcome], deps: Deps) -> None:
    deps.live.runs.restore(run, [(step, outcomes[step.id]) for step in steps if step.id in outcomes])
    deps.live.runs.add(run, steps, remaining(steps))
