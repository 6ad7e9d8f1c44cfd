"""What a fleet's users test their own tools and plans with."""

from fleet.testing.check import check_history
from fleet.testing.history import Finding, History, Rule

__all__ = ["Finding", "History", "Rule", "check_history"]
