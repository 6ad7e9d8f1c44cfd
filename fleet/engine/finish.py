"""How a run ends: on record first, then in its live state, then its events filed."""

from fleet.core.ids import Fence, RunId
from fleet.core.run import End, EndReason, RunStatus
from fleet.engine import collect
from fleet.engine.deps import Deps


def on_record(run: str, end: End, deps: Deps) -> End:
    """Put a run's end on record; gives the end that stands, which is the first one."""
    stands = deps.record.goals.end(RunId(run), end, deps.record.ledger.usage(RunId(run)))
    if deps.telemetry.on:
        record = deps.record.goals.of_run(RunId(run))
        about = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.agent.name": record.goal.loop,
            "gen_ai.conversation.id": record.goal_id,
            "fleet.run.id": run,
            "fleet.run.status": stands.status.value,
            "fleet.run.reason": stands.reason.value,
        }
        deps.telemetry.goal_span(record.traceparent, record.created.timestamp(), deps.clock(), about)
    return stands


def cancelled(run: str, deps: Deps) -> bool:
    """End a run that was cancelled, once nothing of it or below it runs; False while something does. Safe twice."""
    if deps.live.runs.cancel(run) or deps.record.goals.below(deps.goal_of(run).goal_id):
        return False
    why = EndReason(deps.live.runs.about(run).get("why", EndReason.CANCELLED))
    status = RunStatus.CANCELLED if why is EndReason.CANCELLED else RunStatus.FAILED
    partial = collect.partial({plan.version: plan for plan in deps.record.plans.all(RunId(run))}, run, deps)
    return deps.live.runs.end(run, on_record(run, End(status=status, reason=why, answer=partial), deps))


def file_events(run: str, deps: Deps) -> int:
    """Put an ended run's events on record, and give its live keys a lifetime: the number of events.

    Outcomes that a worker did not come to put on record, since it died right after their commit, go there as well.
    """
    if deps.record.outcomes.count(RunId(run)) < deps.live.runs.settled(run):
        _keep_outcomes(RunId(run), deps)
    after, number = deps.record.events.last(RunId(run)), 0
    while events := deps.live.streams.raw(run, after):
        deps.record.events.file(RunId(run), events)
        after, number = events[-1][0], number + len(events)
    deps.live.runs.forget(run, deps.settings.retention)
    return number


def _keep_outcomes(run: RunId, deps: Deps) -> None:
    epoch = deps.live.epoch() or 0
    for step, outcome in deps.live.runs.all_outcomes(run):
        deps.record.outcomes.put(run, step, outcome, Fence(f"{epoch}.{outcome.attempts}"))
