"""A run's events in words, a line each, for whoever reads them in a pipe or a log."""

from typing import TYPE_CHECKING

from fleet.cli.out import printable

if TYPE_CHECKING:
    from fleet.cli.view import RunView
    from fleet.core.events import Event

LONGEST = 200


def sentence_of(event: "Event", view: "RunView") -> str:
    """The event as `  1.2 s  3       search succeeded after 1.0 s`. view: the run with this event heard."""
    words = _WORDS[event.type.value](event, view) if event.type.value in _WORDS else event.type.value
    after = max(0.0, event.at - view.began) if view.began is not None else 0.0
    line = printable(f"{after:6.1f} s  {event.step:<8} {words}").replace("\n", " ")
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def _added(event: "Event", view: "RunView") -> str:
    step = view.steps[event.step]
    needs = f", which needs {', '.join(step.needs)}" if step.needs else ""
    return f"the {view.who(event.step)} is to come" if view.is_of_engine(event.step) else f"planned: {step.call}{needs}"


def _started(event: "Event", view: "RunView") -> str:
    remark = view.remark(event.step)
    return f"{view.who(event.step)} started on {view.steps[event.step].worker}" + (f" ({remark})" if remark else "")


def _parked(event: "Event", view: "RunView") -> str:
    seconds = float(event.data.get("seconds") or 0.0)
    return f"{view.who(event.step)} waits {seconds:.1f} s: {view.steps[event.step].note or 'no reason given'}"


def _lost(event: "Event", view: "RunView") -> str:
    return f"{view.who(event.step)} lost its worker, and is given to another"


def _step_ended(event: "Event", view: "RunView") -> str:
    step = view.steps[event.step]
    if step.state == "succeeded":
        return f"{view.who(event.step)} succeeded after {step.seconds or 0.0:.1f} s"
    return f"{view.who(event.step)} {step.state}" + (f": {step.note}" if step.note else "")


def _planned(event: "Event", view: "RunView") -> str:
    steps = event.data.get("steps")
    return f"plan {view.versions} is complete" + (f": {steps} steps" if steps is not None else "")


def _ended(event: "Event", view: "RunView") -> str:
    reason = event.data.get("reason")
    return f"the goal {view.ended}" + (f": {reason}" if reason and view.ended != "succeeded" else "")


_WORDS = {
    "run.accepted": lambda event, view: "the goal is accepted",
    "run.rebuilt": lambda event, view: "the run was rebuilt from the record",
    "run.asked": lambda event, view: f"the goal asks: {view.question}",
    "run.answered": lambda event, view: "the goal has its answer and goes on",
    "run.taken_over": lambda event, view: "it begins with what an earlier run came to",
    "run.paused": lambda event, view: "the goal is paused: no step starts until it is resumed",
    "run.resumed": lambda event, view: "the goal goes on",
    "run.cancel_asked": lambda event, view: "the goal is being cancelled",
    "run.ended": _ended,
    "plan.completed": _planned,
    "step.added": _added,
    "step.started": _started,
    "step.parked": _parked,
    "step.lost": _lost,
    "step.ended": _step_ended,
}
