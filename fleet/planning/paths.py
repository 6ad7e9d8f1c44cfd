"""How long a run still takes from each step on, were there workers without end."""

from collections.abc import Iterable
from graphlib import TopologicalSorter

from fleet.core.ids import StepId
from fleet.core.plan import Step


def remaining(steps: Iterable[Step]) -> dict[StepId, float]:
    """Seconds from the start of each step to the end of the longest chain that hangs on it, itself included.

    Needs outside of `steps` are ignored. Linear in steps and needs. Raises graphlib.CycleError, which no compiled
    plan does.
    """
    by_id = {step.id: step for step in steps}
    sorter = TopologicalSorter({step.id: [n for n in step.needs if n in by_id] for step in by_id.values()})
    after = dict.fromkeys(by_id, 0.0)
    total: dict[StepId, float] = {}
    for step_id in reversed(tuple(sorter.static_order())):
        total[step_id] = by_id[step_id].seconds + after[step_id]
        for need in by_id[step_id].needs:
            if need in by_id:
                after[need] = max(after[need], total[step_id])
    return total
