"""What the compiler passes look at beside the line itself."""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from pydantic import NonNegativeFloat, PositiveInt

from fleet.core.goal import Goal
from fleet.core.ids import StepId
from fleet.core.plan import Step
from fleet.core.tool import ToolSpec
from fleet.core.value import Value


class Limits(Value):
    """The bounds of one plan. steps: how many it may have. money: dollars left. tools: those allowed; empty: all."""

    steps: PositiveInt = 500
    money: NonNegativeFloat | None = None
    tools: frozenset[str] = frozenset()

    @classmethod
    def of(cls, goal: Goal) -> "Limits":
        """The bounds a goal sets, nothing of its budget being used yet."""
        return cls(steps=goal.budget.steps, money=goal.budget.money, tools=frozenset(goal.tools))


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """specs: every registered tool. known: steps of earlier plan versions that may be referred to.

    seen: ids of this plan's lines so far, refused ones included, so that one mistake is not told twice.
    """

    specs: Mapping[str, ToolSpec]
    limits: Limits
    known: Mapping[StepId, Step]
    seen: Set[StepId]

    def __contains__(self, step: object) -> bool:
        """Whether a step of that id may be referred to."""
        return step in self.seen or step in self.known

    def allowed(self) -> dict[str, ToolSpec]:
        """The tools that this goal's plans may use."""
        return {name: spec for name, spec in self.specs.items() if not self.limits.tools or name in self.limits.tools}
