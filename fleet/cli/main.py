"""The command `fleet`: finds the command, and turns whatever went wrong into a sentence and an exit code."""

import logging
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from fleet.cli import config, control, dead, goals, plans, processes, run
from fleet.cli.out import fault, line, talk
from fleet.errors import FleetFault, PlanRejected

INTERRUPTED = 130
BAD_USAGE = 2
AS_JSON = "--json"

app = typer.Typer(name="fleet", no_args_is_help=True, help="A fleet of workers that pursues goals.")
for group in (processes, run, goals, control, plans, dead, config):
    group.register(app)


@app.callback()
def options(
    ctx: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show where in the code an error came from.")] = False,
) -> None:
    ctx.obj["debug"] = debug
    if not debug:  # else what parts warn of comes out raw, beside the sentence that tells of it
        logging.getLogger().addHandler(logging.NullHandler())


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code. argv: without the program's name; None: this process's."""
    state = {"debug": False}
    command = typer.main.get_command(app)
    try:
        code = command.main(args=argv, prog_name="fleet", standalone_mode=False, obj=state)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        sys.stderr.close()  # whoever read has gone: nothing is left to say
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:
        if state["debug"]:
            traceback.print_exc()
        if isinstance(error, FleetFault) and AS_JSON in (sys.argv[1:] if argv is None else argv):
            line(fault(error))
        return _tell(error)


def _tell(error: Exception) -> int:
    """Says in words what went wrong; gives the exit code."""
    if isinstance(error, PlanRejected):
        talk("fleet: the plan was rejected:")
        for problem in error.problems:
            talk(f"  {problem}")
        return error.exit_code
    if isinstance(error, FleetFault):
        talk(f"fleet: {error}")
        return error.exit_code
    if hasattr(error, "format_message"):  # typer's own, and click's below typer 0.26
        if error.format_message():  # a bare `fleet` has been given its help instead
            talk(f"fleet: {error.format_message()}")
        talk("`fleet --help` lists the commands, `fleet COMMAND --help` their options")
        return BAD_USAGE
    talk(f"fleet: this is a bug: {type(error).__name__}: {error}; `fleet --debug ...` shows where")
    return 1
