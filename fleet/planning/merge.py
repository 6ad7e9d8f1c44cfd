"""Maps what a planner wrote onto the steps that a run already has."""

from collections.abc import Mapping, Set

from fleet.core.ids import StepId
from fleet.core.plan import Effect, Step
from fleet.core.value import Value
from fleet.planning.references import rename_step, signature


class Alias(Value):
    """No new step: what the planner called `id` is the step `to`, which does the same."""

    id: StepId
    to: StepId


class Merger:
    """Takes the steps of one plan, in order, and keeps those that are new.

    existing: every step of the run so far. failed: those of them that did not succeed and never will (failed, skipped,
    cancelled, lost). A step equal to an existing one that is not among `failed` becomes its alias. A `writes` step is
    led to an equal one of an earlier plan too, since repeating a write is worse, each of those being taken once; two
    equal `writes` within one plan are meant, and both stay. A step whose id is taken gets the next free number.

    steps: the new steps so far, under their final ids. aliases: the planner's id to the final one, where they differ or
    where no step was made.
    """

    def __init__(self, existing: Mapping[StepId, Step], failed: Set[StepId] = frozenset()) -> None:
        self.aliases: dict[StepId, StepId] = {}
        self._new: dict[StepId, Step] = {}
        self._taken = set(existing)
        self._highest = max((int(step) for step in existing if step.isdigit()), default=0)
        self._twins: dict[str, list[StepId]] = {}
        for step in existing.values():
            if step.kind == "tool" and step.id not in failed:
                self._twins.setdefault(signature(step), []).append(step.id)

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(self._new.values())

    @property
    def next_id(self) -> int:
        """A number above every numbered step."""
        return self._highest + 1

    def add(self, step: Step) -> Step | Alias:
        """The step as it joins the run (references led to final ids, perhaps renumbered), or the alias it became."""
        led = rename_step(step, self.aliases)
        twin = self._twin(led)
        if twin is not None:
            self.aliases[step.id] = twin
            return Alias(id=step.id, to=twin)
        kept = led.model_copy(update={"id": self._free(step.id)})
        self._remember(step.id, kept)
        return kept

    def _twin(self, step: Step) -> StepId | None:
        twins = self._twins.get(signature(step))
        if not twins:
            return None
        return twins.pop(0) if step.effect is Effect.WRITES else twins[0]

    def _free(self, wanted: StepId) -> StepId:
        return StepId(str(self.next_id)) if wanted in self._taken else wanted

    def _remember(self, wanted: StepId, step: Step) -> None:
        if step.id != wanted:
            self.aliases[wanted] = step.id
        if step.effect is not Effect.WRITES:
            self._twins.setdefault(signature(step), []).append(step.id)
        self._new[step.id] = step
        self._taken.add(step.id)
        self._highest = max(self._highest, int(step.id) if step.id.isdigit() else 0)
