"""A question to a person, and what happens when they answer."""

from fleet.core.events import EventType
from fleet.core.ids import RunId, StepId, version_of
from fleet.core.run import RunStatus
from fleet.engine import join
from fleet.engine.deps import Deps
from fleet.errors import BadInput


def ask(run: RunId, step: StepId, question: str, deps: Deps) -> None:
    """Leave a question: no worker waits for its answer."""
    if deps.record.answers.ask(run, step, question).answer is not None:
        return  # asked by an attempt that was lost, and answered since
    deps.record.goals.set_status(run, RunStatus.ASKING)
    deps.live.runs.note(run, EventType.ASKED, step, {"question": question}, RunStatus.ASKING)


def answer(run: RunId, text: str, by: str, deps: Deps) -> None:
    """Answer the open question of a run: a further plan is made with it. Raises BadInput when none is open."""
    questions = deps.record.answers.open(run)
    if not questions:
        raise BadInput("this goal asks nothing, or it was answered already")
    step = questions[0].step_id
    if not deps.record.answers.answer(run, step, text, by):
        raise BadInput("this question was answered already")
    resume(run, step, deps)


def resume(run: RunId, step: StepId, deps: Deps) -> None:
    """Go on after an answer. Safe to do twice: a run that still asks, and has no open question, was left half-way."""
    join.add_round(run, version_of(step) + 1, deps)
    deps.live.runs.note(run, EventType.ANSWERED, step, status=RunStatus.RUNNING)
    deps.record.goals.set_status(run, RunStatus.RUNNING)
