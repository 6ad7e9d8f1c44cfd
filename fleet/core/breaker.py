"""The rule of a circuit breaker, of which the fleet has one for each tool and model.

Source of the pattern: M. Nygard, "Release It!" (2007), "Circuit Breaker". The counters are in Redis (fleet.store), so
that all workers see one state; this says what they mean.
"""

from enum import StrEnum

from pydantic import PositiveFloat, PositiveInt

from fleet.core.outcome import Failure, FailureClass
from fleet.core.value import Value


class BreakerState(StrEnum):
    """closed: calls pass. open: none does. half_open: a single probe does, and decides."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class BreakerPolicy(Value):
    """Opens after `failures` failures without a success between them within `window` seconds; probes after `rest`."""

    failures: PositiveInt = 5
    window: PositiveFloat = 60.0
    rest: PositiveFloat = 10.0


def counts(failure: Failure) -> bool:
    """Whether a failure speaks of an outage. Misuse and a tool's plain "no" do not."""
    return failure.cls is FailureClass.TRANSIENT
