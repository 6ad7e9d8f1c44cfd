"""What a step costs beside Celery's canvas: W1-100, W2 and W3, interleaved in one run, journal on.

python -m benchmarks.overhead [--rounds 3] [--record sqlite|URL]

Prints wall and CPU milliseconds a step from submission to result (CPU: of workers, scheduler, Redis and this process),
and the ratio to Celery's canvas round by round. `journaled` runs the same DAGs with a tool whose every outcome is on
record before it releases what waits for it.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from pydantic import SecretStr

from benchmarks.workloads import Dag, chain, fan, layers, plan_of
from fleet.client import Fleet
from fleet.core.budget import Budget
from fleet.core.goal import Goal
from fleet.embedded.fleet import EmbeddedFleet
from fleet.embedded.server import RedisServer
from fleet.settings import Settings

WORKLOADS: dict[str, Dag] = {"W1-100": fan(100), "W2": chain(), "W3": layers()}
TOOLS = Path(__file__).parent / "tools.py"
Run = Callable[[Dag], object]


def cpu(roots: list[int]) -> float:
    """CPU seconds of these processes and their children so far."""
    total = 0.0
    for root in roots:
        family = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
        for process in family:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
    return total


@contextmanager
def canvas_runner(url: str) -> Iterator[Run]:
    """A prefork worker of two processes, as Celery is mostly run."""
    os.environ["CANVAS_URL"] = url  # read once, at the import
    from benchmarks import canvas

    command = [sys.executable, "-m", "celery", "-A", "benchmarks.canvas", "worker", "-P", "prefork", "-c", "2"]
    command += ["--loglevel=ERROR", "--without-gossip", "--without-mingle", "-n", "canvas@localhost"]
    worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        canvas.run(chain(3))
        yield canvas.run
    finally:
        worker.terminate()
        worker.wait(20)


@contextmanager
def fleet_runners(settings: Settings) -> Iterator[tuple[Run, Run]]:
    """An embedded fleet: runs of no-op steps, pure and journaled."""
    with EmbeddedFleet(settings) as fleet:
        fleet.wait_ready()
        with Fleet.connect(fleet.settings) as client:

            def runner(tool: str) -> Run:
                def run(dag: Dag) -> object:
                    goal = Goal(objective="benchmark", budget=Budget(steps=100_000))
                    handle = client.submit(goal, plan=plan_of(dag, tool))
                    return client.result(handle.goal_id, 300).answer

                run(chain(3))
                return run

            yield runner("noop"), runner("noop_journaled")


def measure(name: str, dag: Dag, run: Run, seen: dict[tuple[str, str], list[tuple[float, float]]], key: str) -> None:
    me = os.getpid()
    began, used = time.perf_counter(), cpu([me])
    run(dag)
    wall, spent = time.perf_counter() - began, cpu([me]) - used
    seen.setdefault((key, name), []).append((wall * 1000 / len(dag), spent * 1000 / len(dag)))


def report(seen: dict[tuple[str, str], list[tuple[float, float]]]) -> None:
    print("| workload | who | wall ms a step (rounds) | CPU ms a step | canvas / it, by round |")
    print("| --- | --- | --- | --- | --- |")
    for name in WORKLOADS:
        base = [wall for wall, _ in seen["canvas", name]]
        for key in ("canvas", "fleet", "fleet journaled"):
            rows = seen[key, name]
            walls = [wall for wall, _ in rows]
            ratios = [b / w for b, w in zip(base, walls, strict=True)]
            shown = " / ".join(f"{wall:.2f}" for wall in walls)
            cpus = statistics.median(c for _, c in rows)
            times = " / ".join(f"{ratio:.1f}" for ratio in ratios)
            print(f"| {name} | {key} | {shown} | {cpus:.2f} | {times} (median {statistics.median(ratios):.1f}) |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--record", default="sqlite")
    given = parser.parse_args()
    seen: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer.start(Path(folder) / "redis")
        settings = Settings(
            data=Path(folder) / "fleet",
            redis_url=SecretStr(server.url),
            database_url=None if given.record == "sqlite" else SecretStr(given.record),
            tools=f"fleet.tools.builtin.testing_aids,{TOOLS}",
            workers=given.workers,
            slots=given.slots,
            flower=False,
            log_level="WARNING",
        )
        try:
            with (
                canvas_runner(server.url.removesuffix("/0") + "/1") as canvas,
                fleet_runners(settings) as (pure, journaled),
            ):
                for _ in range(given.rounds):
                    for name, dag in WORKLOADS.items():
                        measure(name, dag, canvas, seen, "canvas")
                        measure(name, dag, pure, seen, "fleet")
                        measure(name, dag, journaled, seen, "fleet journaled")
        finally:
            server.stop()
    report(seen)


if __name__ == "__main__":
    main()
