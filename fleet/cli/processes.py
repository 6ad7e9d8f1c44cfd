"""Commands that are processes: up, worker, scheduler, and migrate, which goes before them."""

import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli import out
from fleet.cli.options import AsJson, Data

if TYPE_CHECKING:
    from fleet.embedded.fleet import EmbeddedFleet
    from fleet.settings import Settings

Slots = Annotated[int | None, typer.Option("--slots", help="Steps that one worker runs at a time (FLEET_SLOTS).")]


def register(app: typer.Typer) -> None:
    for command in (up, worker, scheduler, migrate):
        app.command()(command)


def up(
    workers: Annotated[int | None, typer.Option("--workers", help="Worker processes (FLEET_WORKERS).")] = None,
    slots: Slots = None,
    tools: Annotated[str | None, typer.Option("--tools", help="Modules with tools (FLEET_TOOLS).")] = None,
    flower: Annotated[bool | None, typer.Option("--flower/--no-flower", help="Start Flower (FLEET_FLOWER).")] = None,
    data: Data = None,
    json: AsJson = False,
) -> None:
    """Start a whole fleet on this machine. Ctrl-C lets running steps end and stops it; a second one stops at once."""
    from fleet.embedded.fleet import EmbeddedFleet
    from fleet.settings import load_settings

    settings = load_settings(workers=workers, slots=slots, tools=tools, flower=flower, data=data)
    fleet = EmbeddedFleet(settings, talk=out.talk)
    interrupts(fleet.hurry)
    with fleet:
        fleet.wait_ready()
        _serve(fleet, json=json)
    out.talk("the fleet has stopped")


def worker(
    name: Annotated[str | None, typer.Option("--name", help="The worker's name; none: the machine's.")] = None,
    lanes: Annotated[str | None, typer.Option("--lanes", help="Lanes it serves (FLEET_LANES).")] = None,
    slots: Slots = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only tell by the exit code whether the worker of this name serves.")
    ] = False,
    data: Data = None,
) -> None:
    """Run one worker process for the fleet that FLEET_REDIS_URL names, or that runs on the data folder."""
    from fleet.embedded.attach import reachable
    from fleet.settings import load_settings

    settings = reachable(load_settings(lanes=lanes, slots=slots, data=data))
    name = name or socket.gethostname()
    if check:
        raise typer.Exit(0 if _serves(settings, name) else 1)
    from fleet._apps.tasks.worker import main

    raise typer.Exit(main(settings, name) or 0)


def scheduler(data: Data = None) -> None:
    """Run one scheduler process: it reaps leases, sends what is untold, keeps time. Several may run; one leads."""
    from fleet.embedded.attach import reachable
    from fleet.settings import load_settings

    settings = reachable(load_settings(data=data))
    from fleet._apps.scheduler.main import main

    raise typer.Exit(main(settings) or 0)


def migrate(data: Data = None) -> None:
    """Bring the record to this version's schema, once, before workers of a new version start."""
    from fleet.embedded.folder import unusable
    from fleet.embedded.ready import migrate as bring
    from fleet.settings import load_settings, mask

    settings = load_settings(data=data)
    if settings.database_url is None:
        try:
            settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as refused:
            raise unusable(settings.data, refused) from None
    bring(settings.record_url)
    out.talk(f"the record at {mask(settings.record_url)} has this version's schema")


def interrupts(hurry: Callable[[], None]) -> None:
    """The first SIGINT or SIGTERM raises KeyboardInterrupt in the main thread, each later one calls `hurry`."""
    heard: list[int] = []

    def handle(number: int, frame: object) -> None:
        heard.append(number)
        if len(heard) > 1:
            hurry()
            return
        out.over_echo()
        out.talk("stopping: steps that run may end; once more stops at once")
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)


def _serve(fleet: "EmbeddedFleet", *, json: bool) -> None:
    """Says that the fleet is up, and waits for a signal, which may come before all is said."""
    try:
        _tell_up(fleet, json=json)
        while True:
            signal.pause()
    except KeyboardInterrupt:
        return


def _tell_up(fleet: "EmbeddedFleet", *, json: bool) -> None:
    folder = fleet.settings.data
    if json:
        out.document({"data": str(folder), "addresses": fleet.addresses(), "pids": fleet.pids()})
        return
    number = fleet.settings.workers
    workers = "1 worker" if number == 1 else f"{number} workers"
    out.talk(f"the fleet is up: {workers} with {fleet.settings.slots} slots each")
    parts = {"data": out.short(folder), **fleet.addresses()}
    if fleet.flower is not None:
        parts["login"] = f"fleet, password in {out.short(folder / 'flower' / 'flower.password')}"
    for name, part in parts.items():
        out.talk(f"  {name:<8} {part}")
    option = "" if folder == Path(".fleet").absolute() else f" --data {folder}"
    out.talk(f'try: fleet submit{option} "your goal"')


def _serves(settings: "Settings", name: str) -> bool:
    from fleet import names
    from fleet.embedded.ready import serving

    node = names.node_name(name, socket.gethostname())
    return any(names.node_of(known) == node for known in serving(settings))
