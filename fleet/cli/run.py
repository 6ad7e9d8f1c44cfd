"""The command run: one goal from its words to its answer, on a fleet that is there or on one of its own."""

import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from fleet.cli import options, out
from fleet.cli.goals import producer, settings_of, tell_end, warn_of_lanes
from fleet.cli.options import AsJson, Data, Fields, Parameters, Timeout
from fleet.cli.processes import interrupts
from fleet.cli.story import sentence_of
from fleet.cli.view import RunView, table_of
from fleet.errors import ModelUnavailable, TimedOut

if TYPE_CHECKING:
    from rich.table import Table

    from fleet.core.events import Event
    from fleet.settings import Settings

MOST_ROWS = 200
"""Steps that the table of a run that has ended shows."""


def register(app: typer.Typer) -> None:
    app.command()(run)


def run(
    what: Annotated[str, typer.Argument(help="The goal in words, or a YAML plan file.")],
    with_: Fields = None,
    set_: Parameters = None,
    timeout: Timeout = None,
    data: Data = None,
    json: AsJson = False,
) -> None:
    """Pursue one goal and print its answer. Starts a fleet where none runs on the data folder or at FLEET_REDIS_URL."""
    from fleet.cli.reading import read_goal

    settings = settings_of(data)
    goal, plan = read_goal(what, options.fields(with_), options.parameters(set_), settings)
    with _fleet(settings, planned=plan is not None) as (there, own), producer(there) as fleet:
        handle = fleet.submit(goal, plan=plan)
        out.talk(f"goal {handle.goal_id}")
        warn_of_lanes(fleet, plan)
        try:
            show(fleet.watch(handle.goal_id, timeout=timeout))
            end = fleet.result(handle.goal_id, timeout=timeout)
        except KeyboardInterrupt:
            out.talk(f"goal {handle.goal_id} {_goes_on(handle.goal_id, settings, own=own)}")
            raise
        except TimedOut:
            if not own:
                raise
            out.talk("the time is over: the fleet that was started for this goal stops")
            on = _goes_on(handle.goal_id, settings, own=own)
            raise TimedOut(f"goal {handle.goal_id} has not ended within {timeout:g} s; it {on}") from None
    raise typer.Exit(tell_end(handle.goal_id, end, json=json))


def _goes_on(goal: str, settings: "Settings", *, own: bool) -> str:
    """What becomes of a goal that is not waited for any more. own: its fleet was started for it, and stops."""
    folder = settings.data.absolute()
    option = "" if folder == Path(".fleet").absolute() else f" --data {shlex.quote(str(folder))}"
    result = f"`fleet result{option} {goal}` waits for its end"
    if own:
        return f"is kept in {folder}, and goes on when you start `fleet up{option}`; {result} then"
    return f"goes on without you: {result}"


def show(events: "Iterable[Event]", view: RunView | None = None, stream: TextIO | None = None) -> RunView:
    """Shows events as they come: a live table to a person, plain lines to a pipe. Gives what they add up to.

    view: what is known before the first one. stream: where to; none: stderr.
    """
    stream = stream or sys.stderr
    view = view or RunView()
    if stream.isatty():
        return _show_live(events, view, stream)
    for event in events:
        view = view.hear(event)
        stream.write(sentence_of(event, view) + "\n")
        stream.flush()
    return view


def _show_live(events: "Iterable[Event]", view: RunView, stream: TextIO) -> RunView:
    from rich.console import Console
    from rich.live import Live

    views = [view]
    console = Console(file=stream)

    def table() -> "Table":
        rows = MOST_ROWS if views[0].ended else max(5, console.height - 4)
        return table_of(views[0], time.time(), rows)

    with Live(get_renderable=table, console=console, refresh_per_second=8):
        for event in events:
            views[:] = [views[0].hear(event)]
    return views[0]


@contextmanager
def _fleet(settings: "Settings", *, planned: bool) -> "Iterator[tuple[Settings, bool]]":
    """The settings of a fleet that runs: the one that is there, else its own (True) for as long as this lasts.

    planned: whether no planner is needed. Raises ModelUnavailable where a fleet would be started that has none.
    """
    from fleet.embedded.attach import attach
    from fleet.embedded.ready import serving

    there = attach(settings) if settings.redis_url is None else settings if serving(settings) else None
    if there is not None:
        yield there, False
        return
    if not (planned or settings.planner_model or settings.model_script):
        raise ModelUnavailable("no planner is configured: set FLEET_PLANNER_MODEL, or run a plan file")
    from fleet.embedded.fleet import EmbeddedFleet

    out.talk(f"starting a fleet on {settings.data.absolute()}")
    embedded = EmbeddedFleet(settings.model_copy(update={"flower": False}), talk=out.talk)
    interrupts(embedded.hurry)
    with embedded as started:
        started.wait_ready()
        yield started.settings, True
