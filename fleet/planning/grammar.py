"""Streaming parser of the LLM Compiler plan grammar (arXiv 2312.04511, section 3).

One call a line, `3. search("x", limit=2)`, the last line being `join()`. Read a physical line at a time, so that a call
comes out with the end of the line that closes it, and the result does not depend on how the text was cut into chunks.
"""

import re

from fleet.core.ids import StepId
from fleet.core.plan import Problem
from fleet.planning.lines import Garbled, RawCall, RawJoin, RawLine, Thought
from fleet.planning.literals import NotALiteral, arguments

LONGEST_CALL = 200_000
_SHOWN = 1000
_END = "<END_OF_PLAN>"
_TOOL = r"[A-Za-z_][A-Za-z0-9_.-]*"
_NUMBERED = re.compile(r"\s*(?:[-*]\s+)?(?:[Ss]tep\s+)?([0-9]{1,9})\s*[.):]\s*(?=[^\s0-9])")
_CALL = re.compile(rf"\s*(?:[-*]\s+)?({_TOOL})\s*\(")
_UNNUMBERED = re.compile(rf"\s*{_TOOL}\(")
_TRAILER = re.compile(rf"\s*(?:{_END})?\s*(?:#.*)?", re.DOTALL)
_JOIN = re.compile(rf"\s*join\s*(?:\(\s*\))?(?={_TRAILER.pattern}\Z)", re.DOTALL)
_FENCE = re.compile(r"\s*(?:```|~~~)[\w-]*\s*")
_NEXT = re.compile(r"\"\"\"|'''|[\"'\[\](){}#]")
_INSIDE = {quote: re.compile(r"\\.?|" + quote, re.DOTALL) for quote in ('"""', "'''", '"', "'")}


class PlanParser:
    """feed it chunks as they stream; close it at the end. No line is ever dropped: what can't be read is Garbled.

    Prose is a Thought, and so is all that follows `<END_OF_PLAN>`. Blank lines and code fences say nothing. A call that
    goes on over several lines and can't be read makes the parser strict: its lines are read again, and from then on
    a numbered call always starts a line of its own, so that one open quote does not swallow the plan.
    """

    def __init__(self) -> None:
        self._partial: list[str] = []
        self._size = 0
        self._line = 0
        self._open: _Open | None = None
        self._strict = False
        self._ended = False

    def feed(self, chunk: str) -> list[RawLine]:
        """The lines that this chunk completes, in order."""
        found: list[RawLine] = []
        *whole, rest = chunk.split("\n")
        for part in whole:
            self._keep(part)
            found.extend(self._end_of_line())
        self._keep(rest)
        return found

    def close(self) -> list[RawLine]:
        """What was still open when the text ended."""
        found = self._end_of_line() if self._partial else []
        while self._open is not None:
            opened, self._open = self._open, None
            found.extend(self._refuse(opened, "a bracket or quote is not closed"))
        return found

    def _keep(self, part: str) -> None:
        room = LONGEST_CALL + 1 - self._size
        if part and room > 0:
            self._partial.append(part[:room])
            self._size += len(part[:room])

    def _end_of_line(self) -> list[RawLine]:
        text = "".join(self._partial).removesuffix("\r")
        self._partial, self._size = [], 0
        self._line += 1
        return self._read(text, self._line)

    def _read(self, text: str, line: int) -> list[RawLine]:
        opened = self._open
        if opened is None:
            return self._start(text, line)
        if self._strict and _starts_call(text):
            self._open = None
            return [opened.garbled("a bracket or quote is not closed"), *self._start(text, line)]
        opened.add(text)
        return self._settle(opened)

    def _start(self, text: str, line: int) -> list[RawLine]:
        if not text.strip() or _FENCE.fullmatch(text):
            return []
        if self._ended or text.strip() == _END:
            self._ended = True
            return [] if text.strip() == _END else [Thought(text=text.strip(), line=line)]
        number = _NUMBERED.match(text)
        return self._plain(text, line) if number is None else self._numbered(text, line, number)

    def _numbered(self, text: str, line: int, number: re.Match[str]) -> list[RawLine]:
        step, start = StepId(str(int(number[1]))), number.end()
        if _JOIN.match(text, start):
            self._ended = text.rstrip().endswith(_END)
            return [RawJoin(id=step, line=line)]
        call = _CALL.match(text, start)
        if call is None:
            return [_garbled(text, line, step, f'it is not a call: write {step}. tool("argument", ...)')]
        return self._settle(_Open(step, call[1], text, call.end(), line))

    def _plain(self, text: str, line: int) -> list[RawLine]:
        if _JOIN.match(text):
            self._ended = text.rstrip().endswith(_END)
            return [RawJoin(line=line)]
        call = _UNNUMBERED.match(text)
        if call is None:
            self._ended = text.rstrip().endswith(_END)
            return [Thought(text=text.strip(), line=line)]
        opened = _Open(StepId(""), "", text, call.end(), line)
        if opened.end is not None and not opened.trailer_is_empty():
            return [Thought(text=text.strip(), line=line)]
        return [_garbled(text, line, StepId(""), "a step needs its number: write 1. tool(...)")]

    def _settle(self, opened: "_Open") -> list[RawLine]:
        self._open = None
        if opened.size > LONGEST_CALL:
            return self._refuse(opened, f"the call is longer than {LONGEST_CALL:,} characters")
        if opened.end is None:
            self._open = opened
            return []
        try:
            call = opened.read()
        except NotALiteral as bad:
            return self._refuse(opened, str(bad))
        self._ended = _END in opened.trailer()
        return [call]

    def _refuse(self, opened: "_Open", why: str) -> list[RawLine]:
        if self._strict or len(opened.lines) == 1:
            return [opened.garbled(why)]
        self._strict = True
        return [raw for offset, text in enumerate(opened.lines) for raw in self._read(text, opened.line + offset)]


class _Open:
    """A call whose closing bracket may not have been seen. end: where it is, in the text of all its lines."""

    def __init__(self, step: StepId, tool: str, text: str, start: int, line: int) -> None:
        self.step, self.tool, self.line = step, tool, line
        self.lines = [text]
        self.size = len(text)
        self.start = start
        self.end: int | None = None
        self._depth = 1
        self._quote = ""
        self._scan(text, start, 0)

    def add(self, text: str) -> None:
        self.lines.append(text)
        self._scan(text, 0, self.size + 1)
        self.size += len(text) + 1

    def _scan(self, text: str, at: int, offset: int) -> None:
        while self.end is None:
            pattern = _INSIDE[self._quote] if self._quote else _NEXT
            match = pattern.search(text, at)
            if match is None or (not self._quote and match[0] == "#"):
                return
            at = match.end()
            if self._quote:
                self._quote = "" if match[0] == self._quote else self._quote
            elif match[0] in _INSIDE:
                self._quote = match[0]
            else:
                self._depth += 1 if match[0] in "([{" else -1
                self.end = offset + at if self._depth == 0 else None

    def text(self) -> str:
        return "\n".join(self.lines)

    def trailer(self) -> str:
        return self.text()[self.end or 0 :]

    def trailer_is_empty(self) -> bool:
        return _TRAILER.fullmatch(self.trailer()) is not None

    def read(self) -> RawCall:
        text, end = self.text(), self.end or 0
        if not self.trailer_is_empty():
            raise NotALiteral(f"text follows the closing bracket: `{text[end : end + 40].strip()}`")
        if text[end - 1] != ")":
            raise NotALiteral(f"a bracket is closed by another kind: `{text[end - 1]}`")
        if self.tool == "join":
            raise NotALiteral("join takes no arguments: write join()")
        args, kwargs = arguments(text[self.start : end - 1])
        return RawCall(id=self.step, tool=self.tool, args=args, kwargs=kwargs, text=text.strip(), line=self.line)

    def garbled(self, why: str) -> Garbled:
        return _garbled(self.text(), self.line, self.step, why)


def _starts_call(text: str) -> bool:
    number = _NUMBERED.match(text)
    if number is None:
        return _JOIN.match(text) is not None
    return bool(_CALL.match(text, number.end()) or _JOIN.match(text, number.end()))


def _garbled(text: str, line: int, step: StepId, why: str) -> Garbled:
    where = "" if step else f"line {line} (`{text.strip()[:60]}`): "
    problem = Problem(code="unreadable", message=f"{where}the line can't be read: {why}", step=step, line=line)
    return Garbled(text=text.strip()[:_SHOWN], problem=problem)
