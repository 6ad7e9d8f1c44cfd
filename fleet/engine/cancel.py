"""Cancel a run: nothing starts any more; what runs stops at its next safe point."""

from fleet.core.ids import RunId
from fleet.core.run import EndReason, RunStatus
from fleet.engine import finish
from fleet.engine.deps import Deps


def cancel(run: str, deps: Deps, why: EndReason = EndReason.CANCELLED) -> RunStatus:
    """The status it leaves: `cancelled` only when nothing of the run is running any more, else `cancelling`."""
    record = deps.record.goals.of_run(RunId(run))
    if record.status.ended:
        return record.status
    deps.record.goals.set_status(RunId(run), RunStatus.CANCELLING)
    running = deps.live.runs.cancel(run, why)
    if running:
        return RunStatus.CANCELLING
    finish.cancelled(run, deps)
    return deps.record.goals.of_run(RunId(run)).status
