"""What running an attempt comes to: the step is settled, or let go of for a while."""

from dataclasses import dataclass

from fleet.core.outcome import Outcome
from fleet.core.run import End


@dataclass(frozen=True, kw_only=True, slots=True)
class Settle:
    """The step's outcome. end: how the run ends with it. journal: before (the commit), behind (it), or done already."""

    outcome: Outcome
    end: End | None = None
    journal: str = "before"


@dataclass(frozen=True, kw_only=True, slots=True)
class Park:
    """Try again after `delay` seconds. retry: whether that counts as one."""

    delay: float
    reason: str
    retry: bool = True


Result = Settle | Park


class Unwanted(Exception):
    """The attempt was told to stop and not to say what it came to: it is stale or superseded, or its worker stops."""
