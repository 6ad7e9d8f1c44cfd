"""Pause a goal, and let it go on: on record first, its children next, its own live state last.

So whatever a process leaves half-way shows in the goal's own two states, which then differ: `go_on` unites them.
"""

from fleet.core.ids import RunId, version_of
from fleet.core.run import RunStatus
from fleet.engine import join, opening
from fleet.engine.deps import Deps
from fleet.store.sql.goals import GoalRecord


def pause(run: RunId, deps: Deps) -> RunStatus:
    """The status it leaves: `paused`, unless the run has ended or is being cancelled.

    No step of the run or of its child goals starts from then on. What runs goes on to its end, and counts; what is
    ready, or becomes so, is held. Deadlines go on.
    """
    record = deps.record.goals.of_run(run)
    if deps.record.goals.set_status(run, RunStatus.PAUSED) is RunStatus.PAUSED:
        deps.crash.reached("pause", "after_record")
        for child, _ in deps.record.goals.below(record.goal_id):
            _pause_one(child, deps)
        _pause_one(run, deps)
    return deps.record.goals.of_run(run).status


def _pause_one(run: RunId, deps: Deps) -> None:
    if deps.record.goals.set_status(run, RunStatus.PAUSED) is RunStatus.PAUSED:
        hold(deps.record.goals.of_run(run), deps)


def hold(record: GoalRecord, deps: Deps) -> None:
    """One whose producer has not launched it yet, or that Redis lost, is opened: what is added to it then is held."""
    if deps.live.pauses.hold(record.run_id) is None:
        opening.open_recorded(record, deps)
        deps.live.pauses.hold(record.run_id)


def resume(run: RunId, deps: Deps) -> RunStatus:
    """The status it leaves. The run and its child goals go on, also those that were paused by themselves."""
    record = deps.record.goals.of_run(run)
    number = deps.live.pauses.number(run)
    status = _going_on(run, deps)
    if not deps.record.goals.unpause(run, status).open:
        return deps.record.goals.of_run(run).status
    deps.crash.reached("resume", "after_record")
    for child, _ in deps.record.goals.below(record.goal_id):
        _resume_one(child, deps)
    deps.live.pauses.release(run, status, number)
    return deps.record.goals.of_run(run).status


def _resume_one(run: RunId, deps: Deps) -> None:
    number, status = deps.live.pauses.number(run), _going_on(run, deps)
    if deps.record.goals.unpause(run, status).open:
        deps.live.pauses.release(run, status, number)


def _going_on(run: RunId, deps: Deps) -> RunStatus:
    """Asking, where nobody has answered yet. Where somebody did meanwhile, the round that follows is there, held."""
    question = deps.record.answers.newest(run)
    if question is None:
        return RunStatus.RUNNING
    if question.answer is None:
        return RunStatus.ASKING
    join.add_round(run, version_of(question.step_id) + 1, deps)
    return RunStatus.RUNNING


def go_on(deps: Deps) -> None:
    """Runs that are paused on record and not live, or live and not on record. Safe to do twice."""
    for run in deps.record.goals.open_in(RunStatus.PAUSED) - set(deps.live.pauses.paused()):
        pause(run, deps)
    held = {RunId(run) for run in deps.live.pauses.paused()}
    for run in held - deps.record.goals.open_in(RunStatus.PAUSED):
        _release(run, deps)


def _release(run: RunId, deps: Deps) -> None:
    """It was let go on record: its children are, too, before it is. A pause that was asked for meanwhile stands."""
    number, record = deps.live.pauses.number(run), deps.record.goals.of_run(run)
    if not record.status.open:
        return
    for child, _ in deps.record.goals.below(record.goal_id):
        _resume_one(child, deps)
    deps.live.pauses.release(run, _going_on(run, deps), number)
