"""Outcomes of many steps, read a page at a time: their values are never all at hand."""

from collections.abc import Iterator, Sequence

from fleet.core.ids import StepId
from fleet.core.outcome import Outcome
from fleet.engine.deps import Deps

PAGE = 500


def outcomes_of(run: str, steps: Sequence[str], deps: Deps) -> Iterator[tuple[StepId, Outcome]]:
    """The outcomes of these steps in their order, as far as they have ended."""
    for start in range(0, len(steps), PAGE):
        page = steps[start : start + PAGE]
        found = deps.live.runs.outcomes(run, page)
        yield from ((StepId(step), found[StepId(step)]) for step in page if step in found)
