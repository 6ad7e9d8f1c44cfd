"""Finds the references in the arguments of a plan, when it is parsed.

In the arguments of a plan
- a string that is exactly `$3`, `${3}`, `${3.rows.0}`, `$name` or `${name.field}` stands for that value with its type;
- inside a longer string only `${...}` is a reference, filled as text; `$5 million`, `$1.5` and `$1,000` are text;
- inside a parameter that its tool declares an expression, `$3`, `$name` and `${3.field}` are variables (a name with
  a hyphen needs the braces there, since `-` is a minus);
- `\\$` before a digit, letter, underscore or opening brace is a dollar; its backslash is dropped (in an expression the
  string is left as it is, and no variable is seen there).
Keys of objects are never searched, and neither is a value that a tool returned.
"""

import re
from collections.abc import Container, Mapping

from fleet.core.ids import StepId
from fleet.core.plan import Hole, Problem, Ref
from fleet.core.value import Json

_NAME = r"(?:[0-9]+|[A-Za-z_][A-Za-z0-9_-]*)"
_INNER = re.compile(rf"({_NAME})((?:\.[^.{{}}]+)*)")
_WHOLE = re.compile(rf"\$(?:({_NAME})|\{{([^{{}}]*)\}})")
_TEXT = re.compile(rf"(?P<escape>\\\$(?=[A-Za-z0-9_{{]))|\$\{{(?P<inner>[^{{}}]*)\}}|\$(?P<bare>{_NAME})")
_VARIABLE = re.compile(r"\\\$|\$(?:(?P<bare>[0-9]+|[A-Za-z_][A-Za-z0-9_]*)|\{(?P<inner>[^{}]*)\})")
_AMOUNT = re.compile(
    r"[.,]\d|\s?%|[\s-]?(?:hundred|thousand|million|billion|trillion|mn|bn|tn|k|m|b|usd|dollars?|bucks)\b",
    re.IGNORECASE,
)
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")

Place = tuple[str | int, ...]
"""Where a string stands in a JSON value: keys and indexes from the outside in."""


def holes_of(
    args: Mapping[str, Json], expressions: frozenset[str], earlier: Container[StepId]
) -> tuple[dict[str, Json], tuple[Hole, ...], tuple[Problem, ...]]:
    """The references in a step's arguments.

    expressions: names of the parameters that are expressions. earlier: the steps that may be referred to; it decides
    only whether a bare `$n` inside a longer string is ambiguous. Gives the arguments with escapes taken out, the
    holes (spans are character ranges of the strings given back), and problems that name no step yet.
    """
    finder = _Finder(earlier)
    found = {name: finder.walk(value, (name,), name in expressions) for name, value in args.items()}
    return found, tuple(finder.holes), tuple(finder.problems)


def answer_of(answer: Json, earlier: Container[StepId]) -> tuple[Json, tuple[Hole, ...], tuple[Problem, ...]]:
    """The references in a plan's answer expression, which may be any JSON. As holes_of; `at` leads into answer."""
    finder = _Finder(earlier)
    found = finder.walk(answer, (), expression=False)
    return found, tuple(finder.holes), tuple(finder.problems)


class _Finder:
    def __init__(self, earlier: Container[StepId]) -> None:
        self.earlier = earlier
        self.holes: list[Hole] = []
        self.problems: list[Problem] = []

    def walk(self, value: Json, at: Place, expression: bool) -> Json:
        if isinstance(value, str):
            return self.variables(value, at) if expression else self.text(value, at)
        if isinstance(value, Mapping):
            return {str(key): self.walk(item, (*at, str(key)), expression) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.walk(item, (*at, index), expression) for index, item in enumerate(value)]
        return value

    def text(self, value: str, at: Place) -> str:
        whole = _WHOLE.fullmatch(value)
        if whole and (ref := _ref(whole[1] or whole[2])):
            self.holes.append(Hole(at=at, ref=ref))
            return value
        out, size, last = [], 0, 0
        for match in _TEXT.finditer(value):
            piece = value[last : match.start()] + ("$" if match["escape"] else match[0])
            out.append(piece)
            size, last = size + len(piece), match.end()
            self._in_text(match, at, size)
        return "".join([*out, value[last:]])

    def _in_text(self, match: re.Match[str], at: Place, end: int) -> None:
        name = match["bare"]
        if name and name in self.earlier and not _AMOUNT.match(match.string, match.end()):
            say = f"write ${{{name}}} for the value of step {name}, or \\${name} for dollars"
            self._problem("ambiguous_reference", f'"{_near(match)}" is ambiguous: {say}')
        elif match["inner"] is not None:
            self._add(match, at, (end - len(match[0]), end), "text")

    def variables(self, value: str, at: Place) -> str:
        for match in _VARIABLE.finditer(value):
            if match["bare"] or match["inner"] is not None:
                self._add(match, at, match.span(), "variable")
        return value

    def _add(self, match: re.Match[str], at: Place, span: tuple[int, int], mode: str) -> None:
        ref = _ref(match["bare"] or match["inner"])
        if ref is None:
            say = f'"{match[0][:80]}" is not a reference: write ${{n}} or ${{n.field}}, or \\${{ for plain text'
            self._problem("bad_reference", say)
        else:
            self.holes.append(Hole.model_validate({"at": at, "ref": ref, "mode": mode, "span": span}))

    def _problem(self, code: str, message: str) -> None:
        self.problems.append(Problem(code=code, message=message))


def _ref(inner: str) -> Ref | None:
    match = _INNER.fullmatch(inner)
    if match is None:
        return None
    parts = match[2].split(".")[1:]
    path = tuple(int(part) if _INDEX.fullmatch(part) else part for part in parts)
    return Ref(step=StepId(match[1]), path=path)


def _near(match: re.Match[str]) -> str:
    return match.string[max(0, match.start() - 15) : match.end() + 15]
