"""A plan: an immutable DAG of steps, whose arguments hold typed references to the values of earlier steps."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from fleet.core.ids import StepId
from fleet.core.value import Json, Tagged, Value


class Effect(StrEnum):
    """What running a tool does to the world.

    pure: may be run again, cached, shared within a tenant. reads: looks at the world. writes: changes it, and is
    never run again once its outcome is known.
    """

    PURE = "pure"
    READS = "reads"
    WRITES = "writes"


class Ref(Value):
    """The value of an earlier step, or a part of it: `$3` is `Ref(step="3")`, `${3.rows.0}` has path ("rows", 0)."""

    step: StepId
    path: tuple[str | int, ...] = ()


class Hole(Value):
    """A place in a step's arguments that takes the value of a Ref when the step is claimed.

    at: the keys and indexes that lead to the place. mode: `value` puts the referred value there with its type;
    `text` replaces characters span[0] to span[1] of the string there by the value as text; `variable` leaves the
    string (an expression) and binds its variable `$<step>` (or `${step.path}`) to the value.
    """

    at: tuple[str | int, ...]
    ref: Ref
    mode: Literal["value", "text", "variable"] = "value"
    span: tuple[int, int] | None = None


class All(Tagged):
    """Runs when every need succeeded; is skipped as soon as one did not."""

    kind: Literal["all"] = "all"


class AnyOf(Tagged):
    """Runs when the first need succeeded; is skipped when none did."""

    kind: Literal["any"] = "any"


class Quorum(Tagged):
    """Runs when k needs succeeded; is skipped when k can't be reached any more."""

    kind: Literal["quorum"] = "quorum"
    k: PositiveInt


class Settled(Tagged):
    """Runs when every need has ended, however it ended."""

    kind: Literal["settled"] = "settled"


class BestEffort(Tagged):
    """Runs when every need has ended, or `within` seconds after the step was loaded, with what is there then."""

    kind: Literal["best_effort"] = "best_effort"
    within: PositiveFloat


JoinPolicy = Annotated[All | AnyOf | Quorum | Settled | BestEffort, Field(discriminator="kind")]


class Step(Value):
    """A vertex of the DAG: one call of a tool, with what it needs.

    args: JSON as written, placeholders included. holes: the typed references in it. needs: every step this one waits
    for (those of its references and those named without one), without repeats, in order of mention.
    timeout (seconds), lane, effect and seconds (expected duration) are filled by the compiler from the tool's spec.
    """

    id: StepId
    kind: Literal["plan", "tool", "join"] = "tool"
    tool: str = ""
    args: Mapping[str, Json] = Field(default_factory=dict)
    holes: tuple[Hole, ...] = ()
    needs: tuple[StepId, ...] = ()
    join: JoinPolicy = All()
    effect: Effect = Effect.PURE
    lane: str = "main"
    timeout: PositiveFloat = 60.0
    seconds: NonNegativeFloat = 1.0
    note: str = ""

    def call(self, most: int = 160) -> str:
        """The call as people read it, `search(query="x")`, cut to `most` characters."""
        if self.kind != "tool":
            return self.kind
        given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in self.args.items())
        text = f"{self.tool}({given})"
        return text if len(text) <= most else text[: most - 1] + "…"


class Plan(Value):
    """A version of a run's DAG, complete and checked. version: 1, 2, ...; source: the text it was compiled from.

    answer: what the run's answer is once the steps have settled: JSON in which answer_holes are the references (their
    `at` leads into answer; () is the whole of it). None leaves the answer to the joiner.
    """

    version: PositiveInt = 1
    steps: tuple[Step, ...]
    source: str = ""
    answer: Json = None
    answer_holes: tuple[Hole, ...] = ()

    def step(self, step_id: str) -> Step:
        """The step of that id. Raises KeyError where there is none."""
        for step in self.steps:
            if step.id == step_id:
                return step
        raise KeyError(step_id)

    def sinks(self) -> tuple[StepId, ...]:
        """The steps that no other step of this plan needs, in plan order."""
        needed = {need for step in self.steps for need in step.needs}
        return tuple(step.id for step in self.steps if step.id not in needed)


class Problem(Value):
    """Why a plan, or a line of it, was refused, in words that a planner can act on."""

    code: str
    message: str
    step: str = ""
    line: int | None = None

    def __str__(self) -> str:
        return f"step {self.step}: {self.message}" if self.step else self.message
