"""The observations in a prompt, and whether they are those of a record."""

import ast
import json
from collections.abc import Iterable, Mapping, Sequence

from fleet.core.value import Json
from fleet.llm.turns import Observation

OPEN, CLOSE = "<observations>", "</observations>"

Seen = Mapping[str, Json]


def observed(text: str) -> tuple[tuple[Seen, ...], ...]:
    """The blocks of observations in a prompt: for each, its lines as JSON objects.

    A line that is no JSON object is kept as {"unreadable": line}, so that it is equal to no record. A block that is
    not closed ends with the text.
    """
    blocks: list[tuple[Seen, ...]] = []
    block: list[Seen] | None = None
    # Not splitlines(): a JSON string may hold U+2028 and its like as they are.
    for line in text.split("\n"):
        bare = line.strip()
        if block is None:
            block = [] if bare == OPEN else None
        elif bare == CLOSE:
            blocks.append(tuple(block))
            block = None
        elif bare:
            block.append(_read(bare))
    return tuple(blocks) if block is None else (*blocks, tuple(block))


def agrees(seen: Iterable[Seen], recorded: Sequence[Observation]) -> bool:
    """Whether exactly the recorded observations were seen, in any order. Seeing one twice, alike, is seeing it."""
    by_id: dict[str, Seen] = {}
    for each in seen:
        name = str(each.get("id"))
        if by_id.setdefault(name, each) != each:
            return False
    return by_id.keys() == {record.id for record in recorded} and all(
        _same(by_id[record.id], record) for record in recorded
    )


def _same(seen: Seen, record: Observation) -> bool:
    if seen.get("status") != record.status:
        return False
    if record.call is not None and call_of(seen.get("call")) != call_of(record.call):
        return False
    match record.status:
        case "ok":
            return same_json(seen.get("value"), record.value)
        case "error":
            return (seen.get("type"), seen.get("message")) == (record.type, record.message)
        case "skipped":
            return sorted(map(str, seen.get("because") or ())) == sorted(record.because)
        case "cancelled":
            return True


def same_json(one: Json, other: Json) -> bool:
    """Equality of JSON values: 1 and 1.0 are one number, but neither 1 and true nor 1 and "1" are equal."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(value, other[key]) for key, value in one.items())
    return bool(one == other)


def call_of(text: object) -> object:
    """A call such as `pick("max", ["A"])` as a value in which blanks and the kind of quotes do not matter."""
    try:
        call = ast.parse(str(text), mode="eval").body
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            named = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
            return call.func.id, [ast.literal_eval(each) for each in call.args], named
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    return text


def _read(line: str) -> Seen:
    try:
        read = json.loads(line)
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {"unreadable": line}
