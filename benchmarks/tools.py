"""A tool that does nothing, but says that it reads: so its outcome is on record before it counts."""

from fleet.tools.decorator import tool


@tool(effect="reads", breaker=None, seconds=0.0002)
def noop_journaled() -> None:
    """Do nothing."""
