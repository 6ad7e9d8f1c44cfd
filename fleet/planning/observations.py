"""What models are shown of a run: its rounds, each call with what it came to, one JSON object a line.

The form is fixed, since programs read it too (read_observations). A round's results stand between a line
`<observations>` and a line `</observations>`. Each line between is an object with
- id: the step's id, a string; call: the call as a plan would write it; status: ok, error, skipped, cancelled, pending;
- ok: value, and `cut`, the characters left out, where it was too long (it is then a string); where it is kept as an
  artifact, also `artifact` and `size` (bytes), and value is the preview unless the value is at hand;
- error: type and message; skipped and cancelled: because, the ids of the steps that did not succeed.
Line ends and `</` are escaped in every string, so that nothing a tool returned can end the block. An object
{"omitted": n} says how many lines were left out in its place.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

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
    """A plan, what its steps came to, and what the joiner said of it (empty: nothing yet)."""

    plan: Plan
    outcomes: Mapping[StepId, Outcome]
    verdict: str = ""


def render_rounds(
    rounds: Sequence[Round], specs: Iterable[ToolSpec] = (), limit: int = LIMIT, total: int = TOTAL
) -> str:
    """All rounds as text. limit: characters of one value or message. total: characters of all lines, about.

    specs: of the tools, so that a call shows by name what it leaves out by place; without them all go by place.
    """
    by_name = {spec.name: spec for spec in specs}
    sizes = [_size(one.outcomes.get(step.id), limit) for one in rounds for step in one.plan.steps]
    each = _fair(sizes, limit, total)
    room = total // max(1, len(rounds))
    parts = []
    for number, one in enumerate(rounds, 1):
        lines = _fitting([_line(step, one.outcomes.get(step.id), by_name, each) for step in one.plan.steps], room)
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


def _line(step: Step, outcome: Outcome | None, specs: Mapping[str, ToolSpec], limit: int) -> str:
    call, _ = cut(call_text(step, specs), min(_CALL, max(limit, _FEWEST)))
    told = {"status": "pending"} if outcome is None else _told(outcome, limit)
    return safe_json({"id": step.id, **told, "call": call})


def _told(outcome: Outcome, limit: int) -> dict[str, Json]:
    status = _NAME.get(outcome.status, "error")
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


def _fitting(lines: Sequence[str], room: int) -> Iterable[str]:
    """As many lines as fit, from both ends, and one that says how many were left out."""
    if sum(map(len, lines)) <= 2 * room:
        return lines
    head, tail, used = 0, len(lines), 0
    while head < tail and used + len(lines[head]) + len(lines[tail - 1]) <= room:
        used += len(lines[head]) + len(lines[tail - 1])
        head, tail = head + 1, tail - 1
    return [*lines[:head], safe_json({"omitted": max(0, tail - head)}), *lines[max(head, tail) :]]


def _literal(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
