"""A scenario: what is done to a fleet under load, which faults must have fired, and what must hold afterwards."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.chaos.judge import Found, judge
from tests.chaos.rig import Rig, Rigged
from tests.chaos.stage import Stage

SLACK = 5.0
"""Seconds beyond a lease in which a killed worker's steps are to run elsewhere."""
HEADER = (
    "| # | Scenario | Seed | Goals | Faults fired | Recovery p50 | max | Extra attempts | Fenced writes "
    "| Calls left open, made again | Writes in doubt | Verdict |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


class Size(NamedTuple):
    """How large a round is. goals: how many, or how many are open at a time. seconds: how long faults are played."""

    goals: int = 6
    rounds: int = 1
    seconds: float = 0.0
    rig: Rig = Rig()


Play = Callable[[Stage, Size], None]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """play: does it. fired: faults that must have fired, of what the play counts and of what is found afterwards.

    recovery: what each fault's recovery is counted to (tests.chaos.judge). within: seconds it may take (None: a lease
    and SLACK). never: what must not have happened.
    """

    number: int
    name: str
    play: Play
    fired: tuple[str, ...]
    short: Size
    long: Size
    recovery: str = ""
    within: float | None = None
    never: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """What a scenario came to, as a row of the table."""

    scenario: Scenario
    seed: int
    faults: dict[str, int]
    found: Found
    broken: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        found = self.found
        fired = ", ".join(f"{number} {fault}" for fault, number in self.faults.items() if number)
        times = (f"{found.median:.1f} s", f"{found.longest:.1f} s") if found.recovered else ("", "")
        verdict = "holds" if not self.broken else f"BROKEN: {self.broken[0]}"
        cells = (
            *(self.scenario.number, self.scenario.name, self.seed, found.goals, fired, *times),
            *(found.again, found.fenced, found.reissued, found.in_doubt, verdict),
        )
        return f"| {' | '.join(map(str, cells))} |"


def run(scenario: Scenario, rigged: Rigged, size: Size, seed: int) -> Row:
    """Play it, and hold what came of it against what was promised."""
    stage = Stage(rigged, seed)
    try:
        scenario.play(stage, size)
        found = judge(stage, scenario.recovery)
    finally:
        stage.close()
    faults = stage.faults | Counter({"takeovers": found.takeovers, "rebuilt": found.rebuilt})
    counted = faults | Counter(
        {
            "fenced": found.fenced,
            "attempts again": found.again,
            "calls again": found.reissued,
            "writes in doubt": found.in_doubt,
        }
    )
    within = size.rig.lease + SLACK if scenario.within is None else scenario.within
    broken = list(found.broken)
    broken += [f"no {fault}" for fault in scenario.fired if not counted[fault]]
    broken += [f"{counted[fault]} {fault}" for fault in scenario.never if counted[fault]]
    if found.longest > within:
        broken.append(f"a recovery took {found.longest:.1f} s, more than {within:g} s")
    return Row(scenario=scenario, seed=seed, faults=dict(faults), found=found, broken=tuple(broken))
