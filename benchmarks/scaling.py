"""Throughput of sleeping steps on 1, 2 and 4 worker processes of 8 slots: slots are the limit, not cores.

python -m benchmarks.scaling [--goals 24] [--steps 8] [--seconds 0.5]

Prints steps a second and the ratio to one worker; the bound is slots / seconds.
"""

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.workloads import plan_of
from fleet.client import Fleet
from fleet.core.goal import Goal
from fleet.embedded.fleet import EmbeddedFleet
from fleet.errors import FleetFault
from fleet.settings import Settings

SLOTS = 8


def throughput(workers: int, goals: int, steps: int, seconds: float) -> float:
    """Steps a second, from the submission of a batch to its last answer."""
    plan = plan_of({f"s{i}": (seconds, ()) for i in range(steps)})
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            data=Path(folder) / "fleet",
            tools="fleet.tools.builtin.testing_aids",
            workers=workers,
            slots=SLOTS,
            flower=False,
            log_level="WARNING",
        )
        with EmbeddedFleet(settings) as fleet:
            fleet.wait_ready()
            with Fleet.connect(fleet.settings) as client:
                client.result(client.submit(Goal(objective="first"), plan=plan).goal_id, 60)
                began = time.perf_counter()
                handles = client.submit_many([(Goal(objective=f"goal {i}"), plan) for i in range(goals)])
                for handle in handles:
                    if isinstance(handle, FleetFault):
                        raise handle
                    client.result(handle.goal_id, 600)
                return goals * steps / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--goals", type=int, default=64)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.5)
    given = parser.parse_args()
    print("| workers of 8 slots | steps/s | of the bound | ratio to one |")
    print("| --- | --- | --- | --- |")
    one = 0.0
    for workers in (1, 2, 4):
        found = throughput(workers, given.goals, given.steps, given.seconds)
        one = one or found
        bound = workers * SLOTS / given.seconds
        print(f"| {workers} | {found:.1f} | {found / bound:.1%} | {found / one:.2f} |")


if __name__ == "__main__":
    main()
