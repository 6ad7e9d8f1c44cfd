"""What of a run another one takes over: a cut through its plans, and the steps that are done again."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from fleet.core.ids import JOIN, PLAN, RunId, StepId, join_step, plan_step, version_of
from fleet.core.outcome import Outcome, Status
from fleet.core.plan import Effect, Plan, Step
from fleet.core.run import EndReason
from fleet.engine.deps import Deps
from fleet.errors import BadInput
from fleet.store.sql.goals import GoalRecord
from fleet.store.sql.takeovers import Call


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """What a run has come to. versions: of each step, the plan that it is of; steps: all steps of plans, by id.

    answered: join steps whose question was answered.
    """

    record: GoalRecord
    plans: Mapping[int, Plan]
    steps: Mapping[StepId, Step]
    versions: Mapping[StepId, int]
    outcomes: Mapping[StepId, Outcome]
    calls: tuple[Call, ...]
    answered: Set[StepId]

    @classmethod
    def read(cls, record: GoalRecord, deps: Deps) -> "Past":
        run = record.run_id
        plans = {plan.version: plan for plan in deps.record.plans.all(run)}
        of_plans = [(version, step) for version, plan in plans.items() for step in plan.steps]
        every = [*deps.record.plans.noted(run), *of_plans]
        outcomes = {s: o for page in deps.record.outcomes.pages(run) for s, o in page}
        joins = [step for step in outcomes if step.startswith(JOIN)]
        return cls(
            record=record,
            plans=plans,
            steps={step.id: step for _, step in every},
            versions={step.id: version for version, step in every},
            outcomes=outcomes,
            calls=tuple(deps.record.takeovers.calls(run)),
            answered={step for step in joins if _answered(run, step, deps)},
        )

    def verdict(self, version: int) -> str:
        """What the joiner of a plan said: finish, replan, ask, or nothing."""
        outcome = self.outcomes.get(join_step(version))
        value = outcome.value if outcome else None
        return str(value.get("kind", "")) if isinstance(value, dict) else ""

    def goes_on(self, version: int) -> bool:
        """Whether a further plan follows this one, or would have."""
        if join_step(version) in self.answered:
            return True
        refused = self.record.end is not None and self.record.end.reason is EndReason.TOO_MANY_REPLANS
        return self.verdict(version) == "replan" and not (refused and not self._began(version + 1))

    def last(self) -> int:
        """The version of the last plan, be it on record or to be written yet."""
        version = 1
        while self.goes_on(version):
            version += 1
        return version

    def version_of(self, step: str) -> int:
        """The version of the plan that a step is of. Raises BadInput for a step that there is not."""
        known = [*self.versions, *self.outcomes]
        if step not in known:
            names = ", ".join(sorted(known)[:20])
            raise BadInput(f"goal {self.record.goal_id} has no step {step}: it has {names}.")
        return version_of(StepId(step)) if is_of_engine(step) else self.versions[StepId(step)]

    def failed(self, version: int) -> set[StepId]:
        """Steps of that plan that did not succeed, its planner included."""
        ended = [step for step, of in self.versions.items() if of == version and step in self.outcomes]
        ended += [step for step in (plan_step(version),) if step in self.outcomes]
        return {step for step in ended if not self.outcomes[step].ok}

    def hanging_on(self, steps: Iterable[StepId], version: int) -> set[StepId]:
        """These steps, and all that depend on them in plans up to that version."""
        children: dict[StepId, list[StepId]] = {}
        for step in self.steps.values():
            if self.versions[step.id] <= version:
                for need in step.needs:
                    children.setdefault(need, []).append(step.id)
        found, new = set(steps), list(steps)
        while new:
            new = [child for step in new for child in children.get(step, ()) if child not in found]
            found.update(new)
            new = list(dict.fromkeys(new))
        return found

    def later(self, version: int) -> set[StepId]:
        """Steps of plans behind that version, and those of the engine."""
        found = {step for step, of in self.versions.items() if of > version}
        return found | {step for step in self.outcomes if is_of_engine(step) and version_of(step) > version}

    def writes(self, again: Set[StepId]) -> list[StepId]:
        """Those of the steps that changed the world already."""
        done = (step for step in sorted(again) if step in self.steps and step in self.outcomes)
        return [step for step in done if self.steps[step].effect is Effect.WRITES and self.outcomes[step].ok]

    def paid(self, again: Set[StepId]) -> list[Call]:
        """Calls of steps that are done again, or have not ended, which need not or must not be made again.

        Those of a step that succeeded are not: who does it again wants it done. A model's replies are not where all of
        them were heard and the step failed all the same: they are why.
        """
        by_step: dict[StepId, list[Call]] = {}
        for call in self.calls:
            if call.step in again or call.step not in self.outcomes:
                by_step.setdefault(call.step, []).append(call)
        return [call for step, calls in by_step.items() for call in self._paid(self.outcomes.get(step), calls)]

    def _paid(self, outcome: Outcome | None, calls: list[Call]) -> list[Call]:
        if outcome is not None and outcome.ok:
            return []
        if calls[0].kind == "tool":
            return calls
        heard = [call for call in calls if call.state == "done"]
        failed = outcome is not None and outcome.status is Status.FAILED
        return [] if failed and len(heard) == len(calls) else [c for n, c in enumerate(heard) if c.ordinal == n]

    def _began(self, version: int) -> bool:
        return version in self.plans or plan_step(version) in self.outcomes or version in self.versions.values()


def is_of_engine(step: str) -> bool:
    return step.startswith((PLAN, JOIN))


def _answered(run: RunId, step: StepId, deps: Deps) -> bool:
    question = deps.record.answers.of(run, step)
    return question is not None and question.answer is not None
