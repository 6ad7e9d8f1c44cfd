"""Commands about goals: submit, status, watch, result, cancel, answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli import options, out
from fleet.cli.options import AsJson, Data, Fields, GoalArgument, Parameters, Timeout
from fleet.errors import BadInput, FleetFault, StoreUnreachable

if TYPE_CHECKING:
    from fleet.client import Fleet
    from fleet.core.goal import Goal
    from fleet.core.plan import Plan
    from fleet.settings import Settings


def register(app: typer.Typer) -> None:
    for command in (submit, status, watch, result, cancel, answer):
        app.command()(command)


@contextmanager
def producer(settings: "Settings") -> "Iterator[Fleet]":
    """A connection to the fleet that is meant. Raises StoreUnreachable where there is none."""
    from fleet.embedded.attach import reachable

    there = reachable(settings)
    from fleet.client import Fleet

    with Fleet.connect(there) as fleet:
        yield fleet


def settings_of(data: Path | None) -> "Settings":
    from fleet.settings import load_settings

    return load_settings(data=data)


def submit(
    what: Annotated[str | None, typer.Argument(help="The goal in words, or a YAML plan file.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="A file with one goal a line, as JSON.")] = None,
    with_: Fields = None,
    set_: Parameters = None,
    data: Data = None,
    json: AsJson = False,
) -> None:
    """Hand in a goal, or a file of goals. Prints their ids."""
    if (what is None) == (file is None):
        raise BadInput("say one of both: a goal (words or a plan file), or --file with one goal a line")
    settings = settings_of(data)
    if file is not None and (with_ or set_):
        raise BadInput("--with and --set do not go with --file: write the fields into its lines")
    items = _items(what, file, with_, set_, settings)
    with producer(settings) as fleet:
        handles = [fleet.submit(items[0][0], plan=items[0][1])] if file is None else fleet.submit_many(items)
        if any(isinstance(handle, FleetFault) or handle.launched for handle in handles):
            warn_of_lanes(fleet, items[0][1] if file is None else None)
        else:
            out.talk("Redis is away: what was accepted is on record, and starts once it is back")
    _tell(handles, json=json, many=file is not None)


def status(goal: GoalArgument, data: Data = None, json: AsJson = False) -> None:
    """How a goal stands: its state, and that of each step."""
    from fleet.engine.lanes import way_out

    with producer(settings_of(data)) as fleet:
        found = fleet.status(goal)
    if json:
        out.document(found)
        return
    out.data(f"{found.goal_id}  {found.status}  {found.seconds:.1f} s  {found.objective}")
    for step in found.steps:
        failure = f"  {getattr(step.failure, 'message', step.failure)}" if step.failure else ""
        took = f"{step.seconds:.1f} s" if step.seconds is not None else ""
        out.data(f"  {step.id:<10} {step.tool or step.kind:<20} {step.state:<10} {took}{failure}")
    for lane, number in found.unserved.items():
        steps = "1 step waits" if number == 1 else f"{number} steps wait"
        out.data(f"{steps} for lane {lane}, which no live worker serves")
        out.talk(way_out(lane))
    for call in found.reissued:
        again = "made again" if call.times == 1 else f"made again {call.times} times"
        out.data(f"a call of {call.name} in step {call.step} was under way when its worker died, and was {again}")
    if found.question:
        out.data(f"it asks: {found.question}")
        out.talk(f'answer with: fleet answer {found.goal_id} "..."')
    if found.detail:
        out.data(f"{found.reason}: {found.detail}")
    if found.answer is not None:
        out.data(out.in_words(found.answer))


def watch(
    goal: GoalArgument,
    after: Annotated[str, typer.Option("--after", metavar="EVENT", help="Go on after this event's id.")] = "",
    timeout: Timeout = None,
    data: Data = None,
    json: AsJson = False,
) -> None:
    """Print a goal's events as they happen, until it ends. Exit code 1 if it did not succeed."""
    from fleet.cli.view import line_of
    from fleet.core.events import EventType

    ended = ""
    with producer(settings_of(data)) as fleet:
        for event in fleet.watch(goal, after=after, timeout=timeout):
            out.line(event) if json else out.data(line_of(event))
            if event.type is EventType.ENDED:
                ended = str(event.data.get("status", ""))
    if ended and ended != "succeeded":
        raise typer.Exit(1)


def result(goal: GoalArgument, timeout: Timeout = None, data: Data = None, json: AsJson = False) -> None:
    """Wait for a goal's end and print its answer. Exit code 1 if it did not succeed, 6 after --timeout."""
    with producer(settings_of(data)) as fleet:
        end = fleet.result(goal, timeout=timeout)
    raise typer.Exit(tell_end(goal, end, json=json))


def cancel(goal: GoalArgument, data: Data = None, json: AsJson = False) -> None:
    """Stop a goal: no further step starts. Prints its state."""
    with producer(settings_of(data)) as fleet:
        state = fleet.cancel(goal)
    out.document({"goal_id": goal, "status": state}) if json else out.data(str(state))


def answer(
    goal: GoalArgument,
    text: Annotated[str, typer.Argument(help="What to tell the goal that asked.")],
    data: Data = None,
    json: AsJson = False,
) -> None:
    """Answer a goal's question; it goes on from there."""
    with producer(settings_of(data)) as fleet:
        fleet.answer(goal, text)
    out.document({"goal_id": goal, "answered": True}) if json else out.talk(f"goal {goal} has its answer and goes on")


def warn_of_lanes(fleet: "Fleet", plan: "Plan | None") -> None:
    """Says which of a goal's lanes nobody serves. The goal stands all the same: workers may come."""
    from fleet.engine.lanes import way_out

    try:
        lanes = fleet.unserved(plan)
    except StoreUnreachable:  # the goal is on record, and is started when Redis is back
        return
    for lane in lanes:
        out.talk(f"no live worker serves lane {lane}, so its steps wait until one does: {way_out(lane)}")


def tell_end(goal: str, end: Any, *, json: bool) -> int:
    """Prints how a goal ended; gives the exit code."""
    succeeded = str(end.status) == "succeeded"
    if json:
        out.document({"goal_id": goal, **out.jsonable(end)})
        return 0 if succeeded else 1
    if end.answer is not None:
        out.data(out.in_words(end.answer))
    if not succeeded:
        partial = " (above: the best partial result)" if end.answer is not None else ""
        out.talk(f"goal {goal} {end.status}: {end.reason}: {end.detail or 'no detail'}{partial}")
    return 0 if succeeded else 1


def _items(
    what: str | None, file: Path | None, with_: list[str] | None, set_: list[str] | None, settings: "Settings"
) -> "list[tuple[Goal, Plan | None]]":
    from fleet.cli.reading import read_goal, read_goals

    if file is not None:
        return [(goal, None) for goal in read_goals(file)]
    return [read_goal(what or "", options.fields(with_), options.parameters(set_), settings)]


def _tell(handles: "list[Any]", *, json: bool, many: bool) -> None:
    """Prints what became of each item, in order; the worst refusal is the exit code."""
    faults = [handle for handle in handles if isinstance(handle, FleetFault)]
    if json:
        told = [out.fault(h) if isinstance(h, FleetFault) else out.jsonable(h) for h in handles]
        out.document(told if many else told[0])
    for number, handle in enumerate(handles, start=1):
        if isinstance(handle, FleetFault):
            out.talk(f"fleet: goal {number}: {handle}")
        elif not json:
            out.data(handle.goal_id)
    if faults:
        raise typer.Exit(max(fault.exit_code for fault in faults))
