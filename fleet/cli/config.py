"""Commands about the installation: config show, version."""

from typing import Annotated

import typer

from fleet import __version__
from fleet.cli import out
from fleet.cli.options import AsJson, Data

config = typer.Typer(no_args_is_help=True, help="Settings.")


def register(app: typer.Typer) -> None:
    app.add_typer(config, name="config")
    app.command()(version)


@config.command()
def show(
    sources: Annotated[bool, typer.Option("--sources", help="Say where each value comes from.")] = False,
    data: Data = None,
    json: AsJson = False,
) -> None:
    """Every setting and its value, secrets masked."""
    from fleet.settings import sources as origins

    found = origins(data=data)
    if json and not sources:
        out.document({origin.variable: origin.value for origin in found})
    elif json:
        out.document(found)
    for origin in () if json else found:
        out.data(f"{origin.variable}={origin.value}" + (f"  # {origin.source}" if sources else ""))


def version(json: AsJson = False) -> None:
    """The version of the fleet."""
    out.document({"version": __version__}) if json else out.data(__version__)
