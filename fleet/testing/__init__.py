"""What a fleet's users test their own tools and plans with: a simulated fleet, and a check of what it came to."""

from fleet.testing.bench import Bench
from fleet.testing.check import check_history
from fleet.testing.faults import HARD, Faults
from fleet.testing.history import Finding, History, Rule
from fleet.testing.seeds import try_seeds
from fleet.testing.simulator import NotAsPromised, Simulator

__all__ = [
    "HARD",
    "Bench",
    "Faults",
    "Finding",
    "History",
    "NotAsPromised",
    "Rule",
    "Simulator",
    "check_history",
    "try_seeds",
]
