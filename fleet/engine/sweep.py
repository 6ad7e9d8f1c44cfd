"""One sweep: takes back what ran out, tells what was not told, wakes what is due. Idempotent."""

import logging
from typing import NamedTuple

from fleet.core.ids import Fence, RunId, StepId, WorkerId
from fleet.core.outcome import Failure, FailureClass, Outcome, Status
from fleet.core.run import EndReason
from fleet.engine import cancel, finish
from fleet.engine.deps import Deps
from fleet.store.steps import Lost

log = logging.getLogger("fleet.sweep")
RUNS_A_SWEEP = 200


class Swept(NamedTuple):
    """What one sweep did, by number."""

    reaped: int = 0
    buried: int = 0
    due: int = 0
    told: int = 0
    filed: int = 0


def sweep(deps: Deps) -> Swept:
    reaped, buried = _reap(deps)
    due, wakes = deps.live.steps.due()
    deps.send(wakes)
    _go_on(deps)
    untold = deps.live.steps.untold()
    deps.send(untold)
    filed = 0
    for run in deps.live.runs.ended(RUNS_A_SWEEP):
        finish.file_events(run, deps)
        filed += 1
    return Swept(reaped, buried, due, len(untold), filed)


def _reap(deps: Deps) -> tuple[int, int]:
    """Expired leases: back to ready, or to the dead letters after too many losses of one step."""
    total, buried = 0, 0
    for lane in deps.live.lanes():
        again, lost, wakes = deps.live.steps.reap(lane, deps.settings.losses)
        deps.send(wakes)
        total += again
        for each in lost:
            _bury(each, deps)
            buried += 1
    return total, buried


def _bury(lost: Lost, deps: Deps) -> None:
    """On record first: an outcome that an attempt managed to put there stands."""
    run, step = RunId(lost.run), StepId(lost.step)
    cause = f"it took {lost.losses} workers down; the last was {lost.worker}"
    failure = Failure(cls=FailureClass.LOST, type="poison", message=cause)
    outcome = Outcome(status=Status.LOST, failure=failure, attempts=lost.losses)
    stands = deps.record.outcomes.put(run, step, outcome, Fence(lost.fence))
    if stands.status is Status.LOST:
        deps.record.dead.put(run, step, cause, lost.losses, WorkerId(lost.worker))
    done = deps.live.steps.bury(lost, stands)
    deps.send(done.wakes)
    if done.closed:
        finish.cancelled(run, deps)
    log.error("step is dead: %s", cause, extra={"run": run, "step": step})


def _go_on(deps: Deps) -> None:
    """What a process left half done: releases, cancellations; and what the clock ends."""
    for run in deps.live.runs.cascading():
        more = True
        while more:
            more, wakes = deps.live.steps.cascade(run)
            deps.send(wakes)
    for run in deps.live.runs.cancelling():
        if deps.live.runs.cancel(run) == 0:
            finish.cancelled(run, deps)
    for run in deps.live.runs.overdue():
        cancel.cancel(run, deps, EndReason.DEADLINE)
