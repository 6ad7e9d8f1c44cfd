"""What a person wants, and within which bounds."""

from collections.abc import Mapping

from pydantic import AwareDatetime, Field, NonNegativeInt, field_validator

from fleet.core.budget import Budget
from fleet.core.ids import GoalId
from fleet.core.value import Json, Value


class Goal(Value):
    """A goal as it was submitted.

    objective: what is wanted, in words. tools: the names of the tools its plans may use (empty: all registered ones).
    loop: which pattern pursues it; `llm_compiler` plans a DAG, `plan` runs the plan that was given. priority: 0
    (lowest) to 9. key: an idempotency key; the same key gives the same goal.
    """

    objective: str = Field(min_length=1, max_length=100_000)
    criteria: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    inputs: Mapping[str, Json] = Field(default_factory=dict)
    tools: tuple[str, ...] = ()
    loop: str = "llm_compiler"
    budget: Budget = Budget()
    priority: NonNegativeInt = Field(default=4, le=9)
    tenant: str = Field(default="default", pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    deadline: AwareDatetime | None = None
    labels: Mapping[str, str] = Field(default_factory=dict)
    parent: GoalId | None = None
    key: str | None = Field(default=None, max_length=255)

    @field_validator("objective")
    @classmethod
    def _says_something(cls, objective: str) -> str:
        if not objective.strip():
            raise ValueError("a goal needs an objective: say in words what is wanted")
        return objective
