"""Plan pass: what the plan may cost at the worst is within the budget."""

from collections.abc import Iterable, Mapping

from fleet.core.plan import Problem, Step
from fleet.core.tool import ToolSpec


def worst(steps: Iterable[Step], specs: Mapping[str, ToolSpec]) -> float:
    """Dollars, were every step tried as often as its tool allows."""
    used = [specs[step.tool] for step in steps if step.tool in specs]
    return sum(spec.cost * max(1, spec.retry.attempts) for spec in used)


def check(steps: Iterable[Step], specs: Mapping[str, ToolSpec], money: float | None) -> list[Problem]:
    """A problem where the worst case is over `money` dollars. None: no bound."""
    total = worst(steps, specs)
    if money is None or total <= money:
        return []
    say = (
        f"the plan may cost up to ${total:.4g} with every retry, and the budget has ${money:.4g} left:"
        " use fewer steps, or cheaper tools"
    )
    return [Problem(code="over_budget", message=say)]
