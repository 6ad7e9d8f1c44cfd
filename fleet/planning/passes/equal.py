"""Plan pass: equal steps that change nothing run once; what refers to a copy is led to the first."""

from collections.abc import Iterable, Mapping

from fleet.core.ids import StepId
from fleet.core.plan import Step
from fleet.planning.merge import Merger


def merge(steps: Iterable[Step]) -> tuple[tuple[Step, ...], Mapping[StepId, StepId]]:
    """The steps that stay, and for each one dropped the step that stands for it. `writes` steps all stay."""
    merger = Merger({})
    for step in steps:
        merger.add(step)
    return merger.steps, merger.aliases
