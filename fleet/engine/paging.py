"""Outcomes of many steps, read a page at a time: their values are never all at hand."""

from collections.abc import Iterator, Sequence

from fleet.core.ids import StepId
from fleet.core.outcome import Outcome
from fleet.engine.deps import Deps
from fleet.store.scripts import EpochLost

PAGE = 500


def outcomes_of(run: str, steps: Sequence[str], deps: Deps) -> Iterator[tuple[StepId, Outcome]]:
    """The outcomes of these steps in their order, as far as they have ended."""
    for start in range(0, len(steps), PAGE):
        page = steps[start : start + PAGE]
        found = deps.live.runs.outcomes(run, page)
        yield from ((StepId(step), found[StepId(step)]) for step in page if step in found)


def settled_of(run: str, steps: Sequence[str], deps: Deps) -> Iterator[tuple[StepId, Outcome]]:
    """The outcomes of these steps, which have all ended: where one is missing, Redis is not what it was.

    Raises EpochLost: who would go on would take what Redis lost for what never was.
    """
    number = 0
    for step, outcome in outcomes_of(run, steps, deps):
        number += 1
        yield step, outcome
    if number < len(steps):
        raise EpochLost(f"Redis has lost outcomes of run {run}: a scheduler will rebuild it")
