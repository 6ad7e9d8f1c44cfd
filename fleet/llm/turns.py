"""Recorded turns of a model, and how they are written down: JSONL, one turn a line.

A line is a Turn as a JSON object; blank lines are passed over. An example, shortened, in which a joiner answers only if
it saw what was recorded:

    {"purpose": "planner", "goal": "Which is deeper?", "text": "1. search(\\"A\\")\\n2. join()", "delay_s": 1.9}
    {"purpose": "joiner", "goal": "Which is deeper?", "text": "Thought: ...\\nAction: Finish(A)", "delay_s": 1.6,
     "expect_observations": [{"id": "1", "status": "ok", "value": 10984, "call": "search(\\"A\\")"}]}
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt, ValidationError

from fleet.core.budget import Usage
from fleet.core.outcome import FailureClass
from fleet.core.value import Json, Value
from fleet.errors import BadInput

UNKNOWN = "Thought: the observations differ from the record.\nAction: Finish(unknown)"


class Observation(Value):
    """What a recorded turn must find in its prompt: the fields of a line between <observations> and </observations>.

    value counts where status is ok, type and message where it is error, because (in any order) where it is skipped.
    call is compared only where it was recorded.
    """

    id: str
    status: Literal["ok", "error", "skipped", "cancelled"]
    value: Json = None
    type: str = ""
    message: str = ""
    because: tuple[str, ...] = ()
    call: str | None = None


class Fail(Value):
    """Instead of the rest of the text, this failure. after_chunks: chunks that a stream gives before it."""

    cls: FailureClass = FailureClass.TRANSIENT
    type: str
    message: str
    retry_after: NonNegativeFloat | None = None
    after_chunks: NonNegativeInt = 0


class Turn(Value):
    """One recorded answer, and the prompt that it answers.

    purpose, round: who asks, and for which time in a row. The n-th planner's prompt holds n - 1 blocks of observations,
    the n-th joiner's n; the n-th step (a ReAct turn) has seen n - 1 observations. goal: text that must appear in
    what the user says. contains: further texts that must, as they are or within JSON; so the answer to a repair is
    told from the first one. Of several turns that fit, the one with the longest goal and the most texts is given, then
    the earlier one.
    text: the answer. delay_s: seconds it takes. chunks: the pieces in which it is streamed, the j-th of n arriving at
    delay_s * j / n; if not given, its lines. usage: what the call is said to have used.
    expect_observations: if given, the prompt must hold exactly these, in any order; else `otherwise` is answered.
    """

    purpose: Literal["planner", "joiner", "step"]
    round: PositiveInt = 1
    goal: str = ""
    contains: tuple[str, ...] = ()
    text: str = ""
    delay_s: NonNegativeFloat = 0.0
    chunks: tuple[str, ...] = ()
    usage: Usage = Usage(calls=1)
    expect_observations: tuple[Observation, ...] | None = None
    otherwise: str = UNKNOWN
    fail: Fail | None = None


def read_turns(path: Path) -> tuple[Turn, ...]:
    """Read a file of turns. Raises BadInput, which names the line, and OSError."""
    turns: list[Turn] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            turns.append(Turn.model_validate_json(line))
        except ValidationError as wrong:
            first = wrong.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BadInput(f"{path}: line {number} is not a recorded turn: {where} {first['msg']}".strip()) from wrong
    return tuple(turns)


def write_turns(path: Path, turns: Iterable[Turn]) -> None:
    """Write a file of turns, leaving out what has its default."""
    lines = (turn.model_dump_json(exclude_defaults=True) for turn in turns)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
