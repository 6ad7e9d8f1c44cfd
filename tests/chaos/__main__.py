"""`make chaos`: plays scenarios at full length, each on a fleet of its own, and prints the table of what came of them.

python -m tests.chaos [NUMBER ...] [--seed N] [--record sqlite|postgres] [--short]
"""

import argparse
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.rig import rigged
from tests.chaos.scenario import HEADER, Row, Scenario, run
from tests.chaos.scenarios import SCENARIOS, TO_COME


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Plays faults on a real fleet, and says whether what it promises holds."
    )
    parser.add_argument("numbers", nargs="*", type=int, default=sorted(SCENARIOS), help="scenarios (none: all)")
    parser.add_argument("--seed", type=int, default=3, help="what chance begins with")
    parser.add_argument("--record", choices=("sqlite", "postgres"), default="postgres", help="where the record is")
    parser.add_argument("--short", action="store_true", help="a few seconds each")
    given = parser.parse_args()
    say(HEADER)
    with records(given.record) as new_record:
        kept = [played(SCENARIOS[number], new_record(), given.seed, short=given.short) for number in given.numbers]
    for number, name in TO_COME.items():
        say(f"\n{number}. {name}: nobody plays it yet")
    return 0 if all(kept) else 1


def played(scenario: Scenario, url: str | None, seed: int, *, short: bool) -> bool:
    """Whether it holds."""
    size = scenario.short if short else scenario.long
    try:
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder, rigged(size.rig, Path(folder), url) as made:
            row: Row = run(scenario, made, size, seed)
    except Exception:
        sys.stderr.write(traceback.format_exc())
        say(f"| {scenario.number} | {scenario.name} | {seed} | | | | | | | | | BROKEN: it broke off |")
        return False
    say(str(row))
    for broken in row.broken:
        sys.stderr.write(f"{scenario.number}: {broken}\n")
    return not row.broken


@contextmanager
def records(kind: str) -> Iterator[Callable[[], str | None]]:
    if kind == "sqlite":
        yield lambda: None
        return
    from tests.store.sql.pgcluster import Cluster

    cluster = Cluster()
    cluster.start()
    try:
        yield cluster.new_schema
    finally:
        cluster.remove()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
