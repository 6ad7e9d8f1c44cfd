"""What a plan parser emits: raw lines, before any check. Text, JSON and YAML plans all become these."""

from collections.abc import Mapping

from pydantic import Field, PositiveFloat

from fleet.core.ids import StepId
from fleet.core.plan import All, JoinPolicy, Problem
from fleet.core.value import Json, Value


class RawCall(Value):
    """A call as written. line: 1 for the first line of the text. needs, join, timeout and note: JSON and YAML only."""

    id: StepId
    tool: str
    args: tuple[Json, ...] = ()
    kwargs: Mapping[str, Json] = Field(default_factory=dict)
    text: str = ""
    line: int | None = None
    needs: tuple[StepId, ...] = ()
    join: JoinPolicy = All()
    timeout: PositiveFloat | None = None
    note: str = ""


class RawJoin(Value):
    """The end of a plan. id: empty where it was written without one."""

    id: StepId = StepId("")
    line: int | None = None


class Thought(Value):
    """A line of prose: no step, and no mistake."""

    text: str
    line: int | None = None


class Garbled(Value):
    """A line that can't be read. problem.step: its id, where that could be read."""

    text: str
    problem: Problem


RawLine = RawCall | RawJoin | Thought | Garbled
