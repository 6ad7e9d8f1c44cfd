"""Reads the arguments of a call: Python and JSON literals, and references without quotes. Runs nothing."""

import math
import re

from fleet.core.value import Json

_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_KEYWORD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=(?!=)")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])")
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$(?:\{[^{}\n]*\}|[0-9]+|[A-Za-z_][A-Za-z0-9_-]*)")
_WORDS: dict[str, Json] = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_QUOTES = ('"""', "'''", '"', "'")
_STOPS = {quote: re.compile(r"\\|" + quote) for quote in _QUOTES}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"', "'": "'", "/": "/", "\n": ""}
_HEX = {"x": 2, "u": 4, "U": 8}
_DIGITS = re.compile(r"[0-9A-Fa-f]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEEPEST = 64


class NotALiteral(Exception):
    """Arguments can't be read. The message says where and what to write instead."""


def arguments(text: str) -> tuple[tuple[Json, ...], dict[str, Json]]:
    """The positional and keyword arguments in the text between a call's brackets. Raises NotALiteral."""
    reader = _Reader(text)
    args: list[Json] = []
    kwargs: dict[str, Json] = {}
    while not reader.at_end():
        name = reader.keyword()
        value = reader.value(0)
        if name is None and kwargs:
            raise reader.bad("an argument without a name follows one with a name")
        if name in kwargs:
            raise reader.bad(f"argument {name} is given twice")
        if name is None:
            args.append(value)
        else:
            kwargs[name] = value
        reader.separator("")
    return tuple(args), kwargs


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.space()

    def bad(self, message: str) -> NotALiteral:
        near = self.text[max(0, self.at - 15) : self.at + 25].strip()
        return NotALiteral(f"{message} (near `{near}`)" if near else message)

    def at_end(self) -> bool:
        return self.at >= len(self.text)

    def space(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def take(self, pattern: re.Pattern[str]) -> str | None:
        match = pattern.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match[0]

    def keyword(self) -> str | None:
        match = _KEYWORD.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        self.space()
        return match[1]

    def separator(self, end: str) -> None:
        self.space()
        if self.text.startswith(",", self.at):
            self.at += 1
            self.space()
        elif not self.at_end() and not (end and self.text.startswith(end, self.at)):
            raise self.bad("a comma is missing, or a text or an expression is not in quotes")

    def value(self, depth: int) -> Json:
        if depth > _DEEPEST:
            raise self.bad(f"brackets are nested more than {_DEEPEST} deep")
        if self.at_end():
            raise self.bad("an argument is missing")
        first = self.text[self.at]
        if first in "\"'":
            return self.string()
        if first in "[(":
            return self.items("]" if first == "[" else ")", depth)
        if first == "{":
            return self.object(depth)
        reference = self.take(_REFERENCE)
        return reference if reference is not None else self.scalar()

    def scalar(self) -> Json:
        start = self.at
        number = self.take(_NUMBER)
        if number is not None:
            return self.number(number, start)
        word = self.take(_WORD)
        if word in _WORDS:
            return _WORDS[word]
        self.at = start
        raise self.bad(
            f'put it in quotes: "{word}"' if word else "this is no value: write a text in quotes, or a number"
        )

    def number(self, text: str, start: int) -> int | float:
        self.at, end = start, self.at
        if _LEADING_ZERO.match(text) or len(text) > 400:
            raise self.bad(f"put it in quotes: a number does not start with 0, nor is it so long: {text[:20]}")
        value: int | float = float(text) if set(text) & set(".eE") else int(text)
        if not math.isfinite(value):
            raise self.bad(f"the number is too large: {text[:20]}")
        self.at = end
        return value

    def items(self, end: str, depth: int) -> list[Json]:
        self.at += 1
        self.space()
        found: list[Json] = []
        while not self.text.startswith(end, self.at):
            found.append(self.value(depth + 1))
            self.separator(end)
        self.at += 1
        return found

    def object(self, depth: int) -> dict[str, Json]:
        self.at += 1
        self.space()
        found: dict[str, Json] = {}
        while not self.text.startswith("}", self.at):
            key = self.value(depth + 1)
            if not isinstance(key, str | int | float):
                raise self.bad("the key of an object must be a text")
            self.space()
            if not self.text.startswith(":", self.at):
                raise self.bad("a colon is missing after the key of an object")
            self.at += 1
            self.space()
            found[str(key)] = self.value(depth + 1)
            self.separator("}")
        self.at += 1
        return found

    def string(self) -> str:
        quote = next(quote for quote in _QUOTES if self.text.startswith(quote, self.at))
        self.at += len(quote)
        pieces = []
        while stop := _STOPS[quote].search(self.text, self.at):
            pieces.append(self.text[self.at : stop.start()])
            self.at = stop.end()
            if stop[0] == quote:
                return self.whole("".join(pieces))
            pieces.append(self.escaped())
        raise self.bad("a quote is not closed")

    def escaped(self) -> str:
        kind = self.text[self.at : self.at + 1]
        self.at += 1
        if kind not in _HEX:
            return _ESCAPES.get(kind, "\\" + kind)
        digits = self.text[self.at : self.at + _HEX[kind]]
        if not _DIGITS.fullmatch(digits) or len(digits) < _HEX[kind] or int(digits, 16) > 0x10FFFF:
            raise self.bad(f"\\{kind} needs {_HEX[kind]} hexadecimal digits")
        self.at += _HEX[kind]
        return chr(int(digits, 16))

    def whole(self, text: str) -> str:
        if not _SURROGATE.search(text):
            return text
        try:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise self.bad("half of a \\u surrogate pair stands alone") from None
