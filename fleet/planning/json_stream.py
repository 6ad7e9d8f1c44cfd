"""Streaming parser of JSON plans: a step comes out as soon as its object closes."""

import json

from fleet.core.plan import Problem
from fleet.core.value import Json
from fleet.planning.json_plans import line_of
from fleet.planning.lines import Garbled, RawJoin, RawLine, Thought

LONGEST_STEP = 200_000
_DEEPEST = 64
_BLANK = " \t\r\n"


class _Bad(ValueError):
    pass


class JsonSteps:
    """Takes the place of the grammar's PlanParser for {"steps": [...]}, or for the list alone.

    A streamed step may refer only to steps before it. Text around the JSON is a Thought. What can't be read is Garbled;
    a text that breaks off gives no RawJoin, and so a plan that is not complete.
    """

    def __init__(self) -> None:
        self._line = 1
        self._depth = 0
        self._list_depth = 0  # depth inside the list of steps; 0: not in it
        self._text: list[str] = []
        self._size = 0
        self._started = 0
        self._quoted = False
        self._escaped = False
        self._word: list[str] = []
        self._key = ""
        self._lists = 0

    def feed(self, chunk: str) -> list[RawLine]:
        """The lines that this chunk completes, in order."""
        found: list[RawLine] = []
        for char in chunk:
            found.extend(self._take(char))
            self._line += char == "\n"
        return found

    def close(self) -> list[RawLine]:
        """What was still open when the text ended."""
        found = self._flush() if self._depth == 0 else []
        if self._depth:
            found.append(self._garbled("the JSON breaks off before it is closed"))
        elif not self._lists:
            found.append(self._garbled('a JSON plan is {"steps": [{"id": ..., "tool": ..., "args": ...}]}'))
        return found

    def _take(self, char: str) -> list[RawLine]:
        if self._depth == 0 and (char not in "{[" or not self._starts()):
            return self._outside(char)
        if self._quoted:
            self._in_string(char)
            return []
        if char == '"':
            self._quoted, self._word = True, []
            self._keep(char)
            return []
        return self._structure(char)

    def _outside(self, char: str) -> list[RawLine]:
        if char == "\n":
            return self._flush()
        self._keep(char)
        return []

    def _starts(self) -> bool:
        """JSON starts a line; a bracket within prose does not start it."""
        return "".join(self._text).strip(_BLANK + "`") in ("", "json")

    def _flush(self) -> list[RawLine]:
        text = "".join(self._text).strip()
        self._clear()
        return [Thought(text=text, line=self._line)] if text.strip("`~") not in ("", "json") else []

    def _in_string(self, char: str) -> None:
        self._keep(char)
        if self._escaped:
            self._escaped = False
        elif char == "\\":
            self._escaped = True
        elif char == '"':
            self._quoted = False
            return
        if self._depth == 1 and len(self._word) < 16:
            self._word.append(char)

    def _structure(self, char: str) -> list[RawLine]:
        if char in "{[":
            return self._opens(char)
        if char in "}]":
            return self._closes(char)
        if self._depth == 1 and char == ":":
            self._key = "".join(self._word)
        if self._depth == self._list_depth and char == ",":
            return self._element()
        if self._depth != self._list_depth or char not in _BLANK:
            self._keep(char)
        return []

    def _opens(self, char: str) -> list[RawLine]:
        found = self._flush() if self._depth == 0 else []
        self._depth += 1
        starts = char == "[" and (self._depth == 1 or (self._depth == 2 and self._key == "steps"))
        if starts and not self._list_depth:
            self._list_depth = self._depth
            self._lists += 1
            self._clear()
        else:
            self._keep(char)
        return found

    def _closes(self, char: str) -> list[RawLine]:
        found: list[RawLine] = []
        if self._list_depth and self._depth == self._list_depth:
            found = [*self._element(), RawJoin(line=self._line)]
            self._list_depth = 0
            self._clear()
        else:
            self._keep(char)
        self._depth -= 1
        if self._list_depth and self._depth == self._list_depth:
            found = self._element()
        if self._depth == 0:
            self._key = ""
            self._clear()
        return found

    def _element(self) -> list[RawLine]:
        text, line = "".join(self._text), self._started
        size = self._size
        if not text.strip():
            return []
        try:
            if size > LONGEST_STEP:
                raise _Bad(f"the step is longer than {LONGEST_STEP:,} characters")
            step = _load(text)
        except (ValueError, RecursionError) as bad:
            return [self._garbled(f"a step can't be read as JSON: {str(bad)[:200]}")]
        self._clear()
        return [line_of(step, line)]

    def _keep(self, char: str) -> None:
        if not self._text:
            self._started = self._line
        self._size += 1
        if self._size <= LONGEST_STEP:
            self._text.append(char)

    def _clear(self) -> None:
        self._text, self._size = [], 0

    def _garbled(self, why: str) -> Garbled:
        text, line = "".join(self._text)[:1000], self._started if self._text else self._line
        self._clear()
        return Garbled(text=text, problem=Problem(code="unreadable", message=f"line {line}: {why}", line=line))


def _load(text: str) -> Json:
    """JSON without repeated keys, NaN, Infinity or very deep nesting. Raises ValueError."""
    value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    _shallow(value, 0)
    return value


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Bad("a key is given twice")
    return found


def _no_constant(name: str) -> Json:
    raise _Bad(f"{name} is no JSON number")


def _shallow(value: Json, depth: int) -> None:
    if depth > _DEEPEST:
        raise _Bad(f"it is nested more than {_DEEPEST} deep")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _shallow(item, depth + 1)
