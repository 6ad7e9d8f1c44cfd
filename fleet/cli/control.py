"""Commands that steer a goal: pause, resume, retry, fork."""

from typing import Annotated, Any

import typer

from fleet.cli import options, out
from fleet.cli.goals import producer, settings_of
from fleet.cli.options import AsJson, Data, Fields, GoalArgument
from fleet.errors import BadInput

RedoWrites = Annotated[
    bool, typer.Option("--redo-writes", help="Let steps that changed the world do so again, also those in doubt.")
]


def register(app: typer.Typer) -> None:
    for command in (pause, resume, retry, fork):
        app.command()(command)


def pause(goal: GoalArgument, data: Data = None, json: AsJson = False) -> None:
    """Hold a goal and its child goals: no further step starts, what runs ends. Prints its state."""
    with producer(settings_of(data)) as fleet:
        state = fleet.pause(goal)
    out.document({"goal_id": goal, "status": state}) if json else out.data(str(state))


def resume(goal: GoalArgument, data: Data = None, json: AsJson = False) -> None:
    """Let a paused goal and its child goals go on. Prints its state."""
    with producer(settings_of(data)) as fleet:
        state = fleet.resume(goal)
    out.document({"goal_id": goal, "status": state}) if json else out.data(str(state))


def retry(
    goal: GoalArgument,
    from_: Annotated[str, typer.Option("--from", metavar="STEP", help="Do this step again, and what needs it.")] = "",
    redo_writes: RedoWrites = False,
    data: Data = None,
    json: AsJson = False,
) -> None:
    """Go on with a goal that has ended: what failed is done again, what succeeded stands. Prints the goal's id."""
    with producer(settings_of(data)) as fleet:
        handle = fleet.retry(goal, from_, redo_writes=redo_writes)
    _tell(handle, json=json)


def fork(
    goal: GoalArgument,
    at: Annotated[
        str,
        typer.Option("--at", metavar="STEP", help="Begin where this step had ended; version.N: plan N had run."),
    ] = "",
    with_: Fields = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="STEP.NAME=VALUE", help="Another argument of a step. May be repeated."),
    ] = None,
    data: Data = None,
    json: AsJson = False,
) -> None:
    """Begin a new goal where another one stood, with changes. Prints the new goal's id."""
    from fleet.engine.branch import Changes

    changes = Changes(goal=options.fields(with_), args=_arguments(set_))
    with producer(settings_of(data)) as fleet:
        handle = fleet.fork(goal, at, changes)
    _tell(handle, json=json)


def _arguments(words: list[str] | None) -> dict[str, dict[str, Any]]:
    """`3.query=x` as {"3": {"query": "x"}}. Raises BadInput."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in options.parameters(words).items():
        step, dot, argument = name.partition(".")
        if not dot or not step or not argument:
            raise BadInput(f"--set {name!r} is not STEP.NAME=VALUE")
        found.setdefault(step, {})[argument] = value
    return found


def _tell(handle: Any, *, json: bool) -> None:
    out.document(handle) if json else out.data(handle.goal_id)
    if not handle.launched:
        out.talk("Redis is away: what was accepted is on record, and starts once it is back")
