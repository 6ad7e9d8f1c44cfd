"""Compiles a plan line by line as it streams in, and as a whole when it has ended."""

from collections.abc import Mapping, Sequence

from fleet.core.ids import StepId
from fleet.core.plan import Hole, Plan, Problem, Step
from fleet.core.tool import ToolSpec
from fleet.core.value import Json
from fleet.planning.finding import answer_of, holes_of
from fleet.planning.lines import Garbled, RawCall, RawJoin, RawLine, Thought
from fleet.planning.passes import arguments, cost, ending, equal, ids, needs, order, tools
from fleet.planning.references import needs_of, rename
from fleet.planning.scope import Limits, Scope


class LineCompiler:
    """Turns the raw lines of one plan into steps. Problems are given back, never raised, and gathered for finish.

    specs: every registered tool. first_id: the number the plan was asked to begin with; lower ones are not refused,
    since a Merger renumbers them. known: steps of earlier plan versions that may be referred to.
    """

    def __init__(
        self,
        specs: Mapping[str, ToolSpec],
        first_id: int = 1,
        known: Mapping[StepId, Step] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._seen: set[StepId] = set()
        self._scope = Scope(specs=specs, limits=limits or Limits(), known=known or {}, seen=self._seen)
        self._highest = first_id - 1
        self._lines = 0
        self._joins = 0
        self._steps: list[Step] = []
        self._problems: list[Problem] = []

    @property
    def next_id(self) -> int:
        """A number above every number this plan used, its join's included: where a further plan goes on."""
        return self._highest + 1

    @property
    def joined(self) -> bool:
        """Whether the plan's join has been seen."""
        return self._joins > 0

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the lines so far."""
        return tuple(self._problems)

    def line(self, raw: RawLine) -> Step | tuple[Problem, ...]:
        """The step a line makes, or its problems: none for a thought or a join."""
        match raw:
            case Thought():
                return ()
            case Garbled():
                self._lines += 1
                self._see(StepId(raw.problem.step))
                return self._refuse([raw.problem])
            case RawJoin():
                self._joins += 1
                self._see(raw.id)
                return ()
            case RawCall():
                return self._call(raw)

    def finish(
        self, version: int = 1, source: str = "", merged: Sequence[Step] | None = None, answer: Json = None
    ) -> Plan | tuple[Problem, ...]:
        """The whole plan, or every problem of its lines and of the whole.

        merged: the new steps after a Merger took them in, where one did; else equal steps are merged here. answer: what
        the run's answer is, with references, or None; not with `merged`, whose ids may be others.
        """
        answer, holes, wrong = self._answer(answer)
        whole = [*self._problems, *ending.check(self._lines, self._joins), *wrong]
        steps, aliases = equal.merge(self._steps) if merged is None else (tuple(merged), {})
        whole += cost.check(steps, self._scope.specs, self._scope.limits.money)
        if whole:
            return tuple(whole)
        answer, holes = rename(answer, holes, aliases)
        return Plan(version=version, steps=steps, source=source, answer=answer, answer_holes=holes)

    def _answer(self, answer: Json) -> tuple[Json, tuple[Hole, ...], list[Problem]]:
        answer, holes, found = answer_of(answer, self._scope)
        lost = [need for need in needs_of(holes) if need not in self._scope]
        say = "the answer refers to step {}, which does not exist: name a step of the plan"
        dangling = [Problem(code="dangling_reference", message=say.format(need)) for need in lost]
        return answer, holes, [*found, *dangling]

    def _see(self, step: StepId) -> None:
        if step:
            self._seen.add(step)
            self._highest = max(self._highest, int(step) if step.isdigit() else 0)

    def _refuse(self, problems: Sequence[Problem]) -> tuple[Problem, ...]:
        self._problems.extend(problems)
        return tuple(problems)

    def _call(self, raw: RawCall) -> Step | tuple[Problem, ...]:
        self._lines += 1
        if self._lines > self._scope.limits.steps:
            return self._too_many(raw)
        found = [*ids.check(raw, self._scope, self.joined), *tools.check(raw, self._scope)]
        spec = self._scope.specs.get(raw.tool)
        if spec is None:
            found += needs.check(raw, order.wanted(raw, None), self._scope)
        else:
            step, wrong = self._bound(raw, spec)
            found += wrong
        self._see(raw.id)
        if found or spec is None:
            return self._refuse(found)
        self._steps.append(step)
        return step

    def _bound(self, raw: RawCall, spec: ToolSpec) -> tuple[Step, list[Problem]]:
        given, found = arguments.named(raw, spec)
        args, holes, wrong = holes_of(given, spec.expressions, self._scope)
        found += [problem.model_copy(update={"step": raw.id, "line": raw.line}) for problem in wrong]
        found += arguments.typed(raw, args, holes, spec)
        wanted = tuple(dict.fromkeys([*needs_of(holes), *raw.needs]))
        found += needs.check(raw, wanted, self._scope)
        step = Step(
            id=raw.id,
            tool=raw.tool,
            args=args,
            holes=holes,
            needs=wanted,
            join=raw.join,
            effect=spec.effect,
            lane=spec.lane,
            timeout=min(raw.timeout or spec.timeout, spec.timeout),
            seconds=spec.seconds,
            note=raw.note,
        )
        return step, found

    def _too_many(self, raw: RawCall) -> tuple[Problem, ...]:
        most = self._scope.limits.steps
        say = f"the plan has more than {most} steps, the limit of this goal: do the work in fewer steps"
        problem = Problem(code="too_many_steps", message=say, step=raw.id, line=raw.line)
        return self._refuse([problem]) if self._lines == most + 1 else (problem,)
