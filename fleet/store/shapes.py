"""How steps, claims and outcomes look in Redis: written and read here only."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic_core import to_json

from fleet.core.attempt import Attempt
from fleet.core.ids import Fence, StepId
from fleet.core.outcome import Outcome
from fleet.core.plan import AnyOf, BestEffort, Quorum, Settled, Step
from fleet.core.run import RunContext

CHUNK = 120
"""Steps and needs that one call of add.lua takes."""
TRAVELLING = 32
"""References whose values travel with a claim; where there are more, the worker reads them."""
NEEDS_SHOWN = 20
"""Needs that the event of an added step names."""
LONGEST = 10 * 365 * 86400.0
"""Seconds that a step's times are cut to."""


class Wake(NamedTuple):
    """A message to send: the step it is sent for, and the lane whose workers may run it."""

    run: str
    step: str
    lane: str = "main"


class LiveStep(NamedTuple):
    """A step as it stands. state: waiting, ready, held, leased, parked, loading, joining, or the status it ended in."""

    state: str
    attempts: int
    losses: int
    retries: int


def state_of(record: str) -> LiveStep:
    """record: a step's in Redis; see lua/lib/base.lua."""
    word, attempts, losses, retries, *_ = record.partition("\n")[0].split(" ")
    return LiveStep(word, int(attempts), int(losses), int(retries))


def wakes(members: Iterable[str]) -> list[Wake]:
    found = (member.split(" ") for member in members)
    return [Wake(run, step, lane) for lane, run, step in found]


def referred(step: Step) -> list[str]:
    """Ids whose values the step's arguments take, without repeats."""
    return list(dict.fromkeys(hole.ref.step for hole in step.holes))


def spec_of(step: Step, path: float) -> str:
    """A header for the scripts, a newline, and the step as JSON. path: remaining critical path in seconds."""
    refs = referred(step)
    shown = ",".join(refs) if 0 < len(refs) <= TRAVELLING else "-"
    body = step.model_dump_json(exclude_defaults=True)
    times = f"{_milliseconds(step.timeout)} {_milliseconds(path)} {_milliseconds(step.seconds * 1000)}"
    return f"{step.lane} {times} {shown}\n{body}"


def _milliseconds(seconds: float) -> int:
    """Ten years at most: Lua prints larger numbers with an exponent, which no pattern of a script matches."""
    return round(min(seconds, LONGEST) * 1000)


def step_of(body: str) -> Step:
    return Step.model_validate_json(body)


def threshold(step: Step) -> int:
    """How many needs have to succeed; 0: all have to end, however."""
    match step.join:
        case AnyOf():
            return 1
        case Quorum(k=k):
            return k
        case Settled() | BestEffort():
            return 0
    return len(step.needs)


def records(steps: Sequence[Step], paths: Mapping[StepId, float]) -> Iterator[str]:
    """The chunks of add.lua's records, as JSON. A step with many needs is spread over several chunks."""
    chunk: list[list[Any]] = []
    size = 0
    for step in steps:
        for record in _parts(step, paths.get(step.id, step.seconds)):
            if size + 1 + len(record[7]) > CHUNK and chunk:
                yield to_json(chunk).decode()
                chunk, size = [], 0
            chunk.append(record)
            size += 1 + len(record[7])
    if chunk:
        yield to_json(chunk).decode()


def _parts(step: Step, path: float) -> Iterator[list[Any]]:
    within = _milliseconds(step.join.within) if isinstance(step.join, BestEffort) else 0
    about = to_json({"tool": step.tool or step.kind, "call": step.call(), "needs": step.needs[:NEEDS_SHOWN]}).decode()
    spec = spec_of(step, path)
    for start in range(0, max(1, len(step.needs)), CHUNK - 1):
        part = step.needs[start : start + CHUNK - 1]
        last = int(start + len(part) >= len(step.needs))
        yield [step.id, spec if start == 0 else "", threshold(step), start, last, within, about, list(part)]


def attempt_of(claim: Sequence[Any]) -> Attempt:
    """The attempt that a claim hands out."""
    _run, _step, fence, number, losses, retries, context, spec, outcomes = claim
    values = {StepId(outcomes[i]): outcome_of(outcomes[i + 1]) for i in range(0, len(outcomes), 2)}
    return Attempt(
        context=_context(context),
        step=step_of(spec),
        fence=Fence(fence),
        number=int(number),
        losses=int(losses),
        retries=int(retries),
        outcomes=values,
    )


@lru_cache(4096)
def _context(text: str) -> RunContext:
    """Every step of a run carries the same text."""
    return RunContext.model_validate_json(text)


def outcome_of(text: str) -> Outcome:
    return Outcome.model_validate_json(text)


def json_of(outcome: Outcome) -> str:
    return outcome.model_dump_json(exclude_defaults=True)
