"""The demo: a research goal on a fleet that is started for it, watched while it runs, answered, and cleared away.

    python examples/research/demo.py [--keep] [--latency SECONDS]

The planner's and the joiner's turns are recorded (turns.jsonl), so that no model and no key is needed; all else is
real: worker processes, scheduler, Redis, the record, every tool, and that the joiner answers only if every result is
the one that was recorded. Exit codes: 0 the answer is there and its sources are right, 1 not so, 130 stopped by Ctrl-C.
"""

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import redis
from job import TOOLS, TURNS, goal
from pydantic import SecretStr
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tools import CORPUS, DATABASE

from fleet.cli.processes import interrupts
from fleet.cli.run import show
from fleet.cli.view import RunView
from fleet.client import Fleet, GoalStatus
from fleet.core.run import End
from fleet.embedded.fleet import EmbeddedFleet
from fleet.errors import FleetFault
from fleet.settings import Settings, load_settings
from fleet.tools.documents import DocumentIndex
from fleet.tools.tool import ToolFailed

WORKERS = 2
LONGEST_RUN = 120.0
RECORDED = {"plan": "recorded turn", "join": "recorded turn"}
CITED = re.compile(r"\[([\w./-]+#\d+(?:-\d+)?)\]")
INTRODUCTION = """\
The turns of planner and joiner are recorded: no model is called, and no key is needed. All else is real.
A search waits {latency:g} s as over a network, a read {half:g} s; then both look at {documents} shipped documents."""

console = Console(highlight=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Gives the exit code."""
    parser = argparse.ArgumentParser(description="Pursue a research goal on a fleet of this machine.")
    parser.add_argument("--keep", action="store_true", help="keep the data folder and its logs")
    parser.add_argument("--latency", type=float, default=1.0, help="seconds that each search waits")
    given = parser.parse_args(argv)
    hurried: list[EmbeddedFleet] = []
    interrupts(lambda: [fleet.hurry() for fleet in hurried] and None)
    try:
        with _folder(keep=given.keep) as folder, _namespace() as namespace:
            return _run(_settings(folder, namespace), given.latency, hurried)
    except KeyboardInterrupt:
        return 130
    except FleetFault as fault:
        _say(f"demo: {fault}", "red")
        return fault.exit_code


def _run(settings: Settings, latency: float, hurried: list[EmbeddedFleet]) -> int:
    began = time.monotonic()
    _say(f"Starting a fleet: Redis, {WORKERS} workers, a scheduler.", "dim")
    fleet = EmbeddedFleet(settings, talk=_say)
    hurried.append(fleet)
    with fleet:
        index = DocumentIndex(CORPUS, settings.data / DATABASE)
        documents = index.documents()
        fleet.wait_ready()
        _tell_fleet(fleet, time.monotonic() - began)
        wanted = goal(latency)
        _say(f"\nGoal: {wanted.objective}", "bold")
        _say(INTRODUCTION.format(latency=latency, half=latency / 2, documents=len(documents)) + "\n")
        with Fleet.connect(fleet.settings) as client:
            goal_id = client.submit(wanted).goal_id
            view = show(client.watch(goal_id, timeout=LONGEST_RUN), RunView(remarks=RECORDED), sys.stdout)
            end, status = client.result(goal_id, timeout=LONGEST_RUN), client.status(goal_id)
        good = _tell_answer(end, index)
        _tell_cost(status)
        _tell_time(view)
    left = fleet.pids()
    _say(f"The fleet has stopped; {len(left) or 'none'} of its processes is left.", "red" if left else "dim")
    return 0 if good and not left else 1


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="fleet-demo-"))
    with ExitStack() as stack:
        if keep:
            stack.callback(_say, f"Data and logs are kept in {folder}", "dim")
        else:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder


@contextmanager
def _namespace() -> Iterator[str]:
    """A prefix for the keys of this fleet; in a Redis that goes on, none of them stays."""
    namespace = f"demo-{uuid4().hex[:12]}"
    given = load_settings().redis_url
    try:
        yield namespace
    finally:
        if given is not None:
            with redis.Redis.from_url(given.get_secret_value()) as client:
                for key in client.scan_iter(match=f"{namespace}:*"):
                    client.delete(key)


def _settings(folder: Path, namespace: str) -> Settings:
    """Those of this process, so that FLEET_REDIS_URL counts, but a record, a namespace and a model of its own."""
    return load_settings(
        data=folder,
        database_url=SecretStr(f"sqlite:///{folder / 'fleet.db'}"),
        namespace=namespace,
        retention=60.0,
        workers=WORKERS,
        lanes="main",
        lease=5.0,
        heartbeat=1.0,
        grace=10.0,
        tools=str(TOOLS),
        model_script=TURNS,
        time_scale=1.0,
        flower=False,
    )


def _tell_fleet(fleet: EmbeddedFleet, seconds: float) -> None:
    processes = ", ".join(f"{name} {pid}" for name, pid in fleet.pids().items())
    server = fleet.addresses()["redis"]
    _say(f"It is up after {seconds:.1f} s, with Redis at {server}; its processes: {processes}", "dim")


def _tell_answer(end: End, index: DocumentIndex) -> bool:
    """Prints the answer, and what stands at each source that it names. Gives whether all is as it should be."""
    if end.status != "succeeded" or not (sources := list(dict.fromkeys(CITED.findall(str(end.answer))))):
        _say(f"\nThere is no answer: {end.reason} {end.detail or end.answer}", "red")
        return False
    _say("\nAnswer", "bold green")
    _say(str(end.answer))
    _say("\nSources, each read again just now where the answer says it is", "bold green")
    found = {source: _read(source, index) for source in sources}
    for source, sentence in found.items():
        _say_beside(source, sentence or "is not there")
    return all(found.values())


def _read(source: str, index: DocumentIndex) -> str:
    """The sentence that a source names, or an empty text."""
    try:
        return index.read(source)
    except ToolFailed:
        return ""


def _tell_cost(status: GoalStatus) -> None:
    used = status.usage
    tools = sum(step.kind == "tool" for step in status.steps)
    _say("\nCost", "bold green")
    _say(
        f"  {used.calls} model calls: {used.input_tokens:,} tokens in, {used.output_tokens:,} out, ${used.money:.4f}, "
        f"as recorded (nothing was spent now); {tools} tool calls: free"
    )


def _tell_time(view: RunView) -> None:
    seconds = sum(step.seconds or 0.0 for step in view.steps.values())
    took = view.took or 0.0
    _say("\nTime", "bold green")
    _say(f"  {took:5.1f} s  from the goal to its answer, with up to {_most_at_once(view)} steps at the same time")
    _say(
        f"  {seconds:5.1f} s  the same {len(view.steps)} steps one after another, by the seconds each took in this run"
    )
    if took:
        _say(f"  {seconds / took:5.1f}    times as fast\n")


def _most_at_once(view: RunView) -> int:
    spans = [(step.since, step.since + step.seconds) for step in view.steps.values() if step.since and step.seconds]
    return max((sum(start <= at < end for start, end in spans) for at, _ in spans), default=0)


def _say_beside(name: str, text: str) -> None:
    """A name and a text beside it, which keeps its column where a terminal breaks it into lines."""
    if not console.is_terminal:
        _say(f"  {name:<28} {text}")
        return
    grid = Table.grid(padding=(0, 1))
    grid.add_column(min_width=30, no_wrap=True)
    grid.add_row(Text(f"  {name}"), Text(text))
    console.print(grid)


def _say(text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=not console.is_terminal)


if __name__ == "__main__":
    raise SystemExit(main())
