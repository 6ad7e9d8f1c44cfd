"""What a tool says of itself, apart from its code: what planner, compiler and engine need to know."""

from collections.abc import Mapping

from pydantic import Field, NonNegativeFloat, PositiveFloat

from fleet.core.breaker import BreakerPolicy
from fleet.core.plan import Effect
from fleet.core.retry import RetryPolicy
from fleet.core.value import Json, Value


class ToolSpec(Value):
    """A tool as a model sees it, and how the engine treats it.

    parameters: a JSON schema of type object, its properties in the order of the function's parameters (which gives
    positional arguments their names). expressions: names of the parameters that are expressions, in which `$n` is a
    variable. timeout: seconds. cost: dollars a call, for the worst-case bound. seconds: expected duration.
    """

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")
    version: str = "1"
    description: str = ""
    parameters: Mapping[str, Json] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    expressions: frozenset[str] = frozenset()
    effect: Effect = Effect.READS
    timeout: PositiveFloat = 60.0
    cost: NonNegativeFloat = 0.0
    seconds: NonNegativeFloat = 1.0
    lane: str = "main"
    retry: RetryPolicy = RetryPolicy()
    breaker: BreakerPolicy | None = None
    model: bool = False
    """Whether it calls a model: then it is billed, and its calls stand in the ledger."""
