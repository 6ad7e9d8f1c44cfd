"""What models are shown of a run: its rounds, each call with what it came to, one JSON object a line.

The form is fixed, since programs read it too (read_observations). A round's results stand between a line
`<observations>` and a line `</observations>`. Each line between is an object with
- id: the step's id, a string; call: the call as a plan would write it; status: ok, error, skipped, cancelled, pending;
- ok: value, and `cut`, the characters left out, where it was too long (it is then a string); where it is kept as an
  artifact, also `artifact` and `size` (bytes), and value is the preview unless the value is at hand;
- error: type and message; skipped and cancelled: because, the ids of the steps that did not succeed.
Line ends and `</` are escaped in every string, so that nothing a tool returned can end the block. An object
{"omitted": n, "ok": m, ...} says how many lines were left out in its place, and how many of each status.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fleet.core.ids import StepId
from fleet.core.outcome import Outcome, Status
from fleet.core.plan import Plan, Step
from fleet.core.tool import ToolSpec
from fleet.core.value import Json, Value
from fleet.planning.references import written

OPEN, CLOSE = "<observations>", "</observations>"
LIMIT = 4000
TOTAL = 60_000
_FEWEST = 200
_CALL = 1000
_NAME = {Status.SUCCEEDED: "ok", Status.SKIPPED: "skipped", Status.CANCELLED: "cancelled"}
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_BLOCK = re.compile(rf"^{OPEN}\n(.*?)^{CLOSE}$", re.DOTALL | re.MULTILINE)


class Round(Value):
    """A plan, what its steps came to, and what the joiner said of it (empty: nothing yet).

    unread: steps that are not to be shown, since there are too many, with the word for what they came to.
    """

    plan: Plan
    outcomes: Mapping[StepId, Outcome]
    unread: Mapping[StepId, str] = {}
    verdict: str = ""


def render_rounds(
    rounds: Sequence[Round], specs: Iterable[ToolSpec] = (), limit: int = LIMIT, total: int = TOTAL
) -> str:
    """All rounds as text. limit: characters of one value or message. total: characters of all lines, about.

    specs: of the tools, so that a call shows by name what it leaves out by place; without them all go by place.
    """
    by_name = {spec.name: spec for spec in specs}
    shown = [(one, step) for one in rounds for step in one.plan.steps if step.id not in one.unread]
    sizes = [_size(one.outcomes.get(step.id), limit) for one, step in shown]
    each = _fair(sizes, limit, total)
    room = total // max(1, len(rounds))
    parts = []
    for number, one in enumerate(rounds, 1):
        lines = _fitting([_line(step, one, by_name, each) for step in one.plan.steps], room)
        said = f"\nVerdict: {safe_json(one.verdict)}" if one.verdict else ""
        parts.append("\n".join([f"Plan {number}:", OPEN, *lines, CLOSE]) + said)
    return "\n\n".join(parts)


def read_observations(text: str) -> tuple[tuple[dict[str, Json], ...], ...]:
    """The observations in a prompt, a tuple for each round: the inverse of render_rounds."""
    return tuple(tuple(json.loads(line) for line in block.splitlines()) for block in _BLOCK.findall(text))


def call_text(step: Step, specs: Mapping[str, ToolSpec]) -> str:
    """The step's call as a plan would write it: `extract("$1", "height_m")`."""
    args = written(step.args, step.holes)
    spec = specs.get(step.tool)
    order = list(spec.parameters.get("properties", {})) if spec else list(args)
    parts = []
    for index, (name, value) in enumerate(args.items()):
        by_place = index < len(order) and order[index] == name
        parts.append(_literal(value) if by_place else f"{name}={_literal(value)}")
    return f"{step.tool}({', '.join(parts)})"


def safe_json(value: Json) -> str:
    """JSON on one line that closes no tag."""
    text = json.dumps(value, ensure_ascii=False).replace("</", "<\\/")
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def cut(text: str, limit: int) -> tuple[str, int]:
    """A text cut in its middle to about limit characters, and how many were left out."""
    left_out = len(text) - limit
    if left_out <= 0:
        return text, 0
    head = limit * 2 // 3
    return f"{text[:head]} ... [{left_out} characters left out] ... {text[len(text) - (limit - head) :]}", left_out


def word_of(outcome: Outcome | None) -> str:
    """What became of a step, in a word."""
    return "pending" if outcome is None else _NAME.get(outcome.status, "error")


def worth_showing(words: Sequence[str], sizes: Sequence[int], room: int) -> set[int]:
    """Places of the steps to show where not all of them fit: errors, up to half the room, then from both ends.

    words: what became of each step. sizes: how much room each takes.
    """
    if sum(sizes) <= room:
        return set(range(len(words)))
    kept: set[int] = set()
    used = 0
    for at in (at for at, word in enumerate(words) if word == "error"):
        if used + sizes[at] > room // 2:
            break
        kept.add(at)
        used += sizes[at]
    for at in _from_both_ends(len(words)):
        if at not in kept and used + sizes[at] > room:
            break
        used += 0 if at in kept else sizes[at]
        kept.add(at)
    return kept


def _from_both_ends(number: int) -> Iterator[int]:
    for at in range((number + 1) // 2):
        yield at
        if number - 1 - at != at:
            yield number - 1 - at


class _Line(NamedTuple):
    """A step in a block. text: empty where it is left out."""

    word: str
    text: str


def _line(step: Step, one: Round, specs: Mapping[str, ToolSpec], limit: int) -> _Line:
    if step.id in one.unread:
        return _Line(one.unread[step.id], "")
    outcome = one.outcomes.get(step.id)
    call, _ = cut(call_text(step, specs), min(_CALL, max(limit, _FEWEST)))
    told = {"status": word_of(None)} if outcome is None else _told(outcome, limit)
    return _Line(word_of(outcome), safe_json({"id": step.id, **told, "call": call}))


def _told(outcome: Outcome, limit: int) -> dict[str, Json]:
    status = word_of(outcome)
    if status == "ok":
        return {"status": status, **_value(outcome, limit)}
    if status == "error":
        failure = outcome.failure
        message, left_out = cut(failure.message if failure else "", limit)
        error = {"status": status, "type": failure.type if failure else outcome.status.value, "message": message}
        return {**error, "cut": left_out} if left_out else error
    return {"status": status, "because": list(outcome.because)}


def _value(outcome: Outcome, limit: int) -> dict[str, Json]:
    kept = outcome.artifact
    value = kept.preview if kept and outcome.value is None else outcome.value
    shown, left_out = cut(_text(value), limit)
    told: dict[str, Json] = {"value": shown, "cut": left_out} if left_out else {"value": value}
    return {**told, "artifact": kept.ref, "size": kept.size} if kept else told


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _size(outcome: Outcome | None, limit: int) -> int:
    if outcome is None:
        return 0
    preview = outcome.artifact.preview if outcome.artifact and outcome.value is None else ""
    message = outcome.failure.message if outcome.failure else ""
    return min(limit, len(preview or message or _text(outcome.value)))


def _fair(sizes: Sequence[int], limit: int, total: int) -> int:
    """The largest limit up to `limit` under which the sizes, each cut to it, come to no more than total."""
    left = total - 100 * len(sizes)
    for rank, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - rank)
        if share < size:
            return min(limit, max(_FEWEST, share))
        left -= size
    return limit


def _fitting(lines: Sequence[_Line], room: int) -> Iterator[str]:
    """The lines as far as they fit, and in place of each gap one that says what was left out."""
    sizes = [len(line.text) for line in lines]
    shown = worth_showing([line.word for line in lines], sizes, 2 * room if sum(sizes) <= 2 * room else room)
    gap: Counter[str] = Counter()
    for at, line in enumerate(lines):
        if line.text and at in shown:
            yield from _omitted(gap)
            gap = Counter()
            yield line.text
        else:
            gap[line.word] += 1
    yield from _omitted(gap)


def _omitted(gap: Mapping[str, int]) -> list[str]:
    return [safe_json({"omitted": sum(gap.values()), **gap})] if gap else []


def _literal(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
