"""One sweep: takes back what ran out, tells what was not told, wakes what is due. Idempotent."""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from fleet.core.ids import Fence, RunId, StepId, WorkerId
from fleet.core.outcome import Failure, FailureClass, Outcome, Status
from fleet.core.run import EndReason
from fleet.engine import cancel, finish, join
from fleet.engine.deps import Deps
from fleet.errors import StoreUnreachable
from fleet.store.steps import Lost

T = TypeVar("T")
log = logging.getLogger("fleet.sweep")
RUNS_A_SWEEP = 200
CALLS_A_LOOK = 100
LATE = 60.0
"""Seconds at least that an attempt of an ended run is left to close its call itself."""


Told = Callable[[Sequence[Lost], bool], object]
"""Hears of attempts whose worker was lost, and whether their steps are ready again, or dead."""


def nobody(lost: Sequence[Lost], again: bool) -> None:
    """Hears nothing."""


class Swept(NamedTuple):
    """What one sweep did, by number."""

    reaped: int = 0
    buried: int = 0
    due: int = 0
    told: int = 0
    filed: int = 0


def sweep(deps: Deps, *, reap: bool = True, told: Told = nobody) -> Swept:
    """reap: False leaves leases alone that ran out, after a silence of Redis in which nobody could renew one.

    told: hears of the attempts that were taken back, and must not fail.
    What goes wrong with one run is logged, and does not keep the others waiting. Raises StoreUnreachable.
    """
    reaped, buried = _reap(deps, told) if reap else (0, 0)
    due, _ = deps.live.steps.due()
    _each(deps.live.runs.cascading(), lambda run: _cascade(run, deps))
    _each(deps.live.pauses.shifting(), deps.live.pauses.go_on)
    _each(deps.live.runs.cancelling(), lambda run: finish.cancelled(run, deps))
    _each(deps.live.runs.overdue(), lambda run: cancel.cancel(run, deps, EndReason.DEADLINE))
    untold = deps.live.steps.untold()
    ended = deps.live.runs.ended(RUNS_A_SWEEP)
    _each(ended, lambda run: finish.file_events(run, deps))
    return Swept(reaped, buried, due, len(untold), len(ended))


def close_abandoned(deps: Deps) -> int:
    """Close calls left open in runs that have ended, so that no reservation stands for ever: how many. Idempotent."""
    age, number = max(LATE, 2 * deps.settings.lease), 0
    while closed := deps.record.ledger.close_abandoned(age, CALLS_A_LOOK):
        number += closed
        log.warning("%d calls were left open by runs that have ended: closed, and counted as made", closed)
        if closed < CALLS_A_LOOK:
            break
    return number


def _each(items: Sequence[T], act: Callable[[T], object]) -> None:
    for item in items:
        try:
            act(item)
        except StoreUnreachable:
            raise
        except Exception:
            log.exception("not swept: %s", item)


def _reap(deps: Deps, told: Told) -> tuple[int, int]:
    """Expired leases: back to ready, or to the dead letters after too many losses of one step."""
    total, buried = 0, 0
    for lane in deps.live.lanes():
        again, lost, _ = deps.live.steps.reap(lane, deps.settings.losses, tell=lambda taken: told(taken, True))
        told(lost, False)
        total += again
        buried += len(lost)
        _each(lost, lambda each: _bury(each, deps))
    return total, buried


def _bury(lost: Lost, deps: Deps) -> None:
    """On record first: an outcome that an attempt managed to put there stands."""
    run, step = RunId(lost.run), StepId(lost.step)
    cause = f"it took {lost.losses} workers down; the last was {lost.worker}"
    failure = Failure(cls=FailureClass.LOST, type="poison", message=cause)
    outcome = Outcome(status=Status.LOST, failure=failure, attempts=lost.losses)
    stands = deps.record.outcomes.put(run, step, outcome, Fence(lost.fence))
    if stands.status is Status.LOST:
        spec = deps.live.runs.step(run, step)
        tool = spec.tool or spec.kind if spec else ""
        deps.record.dead.put(run, step, cause, lost.losses, WorkerId(lost.worker), tool=tool)
    end = join.end_without(run, step, stands, deps)
    done = deps.live.steps.bury(lost, stands, finish.on_record(run, end, deps) if end else None)
    if done.closed:
        finish.cancelled(run, deps)
    log.error("step is dead: %s", cause, extra={"run": run, "step": step})


def _cascade(run: str, deps: Deps) -> None:
    """Releases that a process left half done."""
    more = True
    while more:
        more, _ = deps.live.steps.cascade(run)
