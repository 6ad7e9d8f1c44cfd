"""One try of a step by one worker, under a lease."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.core.ids import Fence, StepId
from fleet.core.outcome import Outcome
from fleet.core.plan import Step
from fleet.core.run import RunContext


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """A claimed step. number: 1 for the first try. losses: how many earlier tries lost their worker.

    outcomes: of the steps this one refers to, where they were small enough to travel with the claim; the rest is read
    from the store. It is stored nowhere, and made of values that are checked already.
    """

    context: RunContext
    step: Step
    fence: Fence
    number: int
    losses: int = 0
    retries: int = 0
    outcomes: Mapping[StepId, Outcome] = field(default_factory=dict)
