"""Cancel a run and the goals below it: nothing starts any more; what runs stops at its next safe point."""

from fleet.core.ids import RunId
from fleet.core.run import EndReason, RunStatus
from fleet.engine import finish, opening
from fleet.engine.deps import Deps


def cancel(run: str, deps: Deps, why: EndReason = EndReason.CANCELLED) -> RunStatus:
    """The status it leaves: `cancelled` only when nothing of it or below it is running any more, else `cancelling`.

    What has not started is settled before this returns, also in its child goals, which go first.
    """
    record = deps.record.goals.of_run(RunId(run))
    if record.status.ended:
        return record.status
    deps.record.goals.set_status(RunId(run), RunStatus.CANCELLING)
    deps.crash.reached("cancel", "after_record")
    for child, _ in reversed(deps.record.goals.below(record.goal_id)):
        deps.record.goals.set_status(child, RunStatus.CANCELLING)
        _cancel_one(child, deps, EndReason.CANCELLED)
    _cancel_one(RunId(run), deps, why)
    return deps.record.goals.of_run(RunId(run)).status


def _cancel_one(run: RunId, deps: Deps, why: EndReason) -> None:
    running = deps.live.runs.cancel(run, why)
    if running is None and not (record := deps.record.goals.of_run(run)).status.ended:
        opening.open_recorded(record, deps)  # its producer may be about to launch it, and is to find it closed
        running = deps.live.runs.cancel(run, why)
    if not running:
        finish.cancelled(run, deps)
