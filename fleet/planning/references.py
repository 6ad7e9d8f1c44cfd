"""References between steps: found once, when a plan is parsed; resolved once, when a step is claimed.

In the arguments of a plan
- a string that is exactly `$3`, `${3}`, `${3.rows.0}`, `$name` or `${name.field}` stands for that value with its type;
- inside a longer string only `${...}` is a reference, filled as text; `$5 million`, `$1.5` and `$1,000` are text;
- inside a parameter that its tool declares an expression, `$3`, `$name` and `${3.field}` are variables (a name with
  a hyphen needs the braces there, since `-` is a minus);
- `\\$` before a digit, letter, underscore or opening brace is a dollar; its backslash is dropped (in an expression the
  string is left as it is, and no variable is seen there).
Keys of objects are never searched, and neither is a value that a tool returned.
"""

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cache

from fleet.core.ids import StepId
from fleet.core.outcome import Failure, FailureClass
from fleet.core.plan import Hole, Problem, Ref, Step
from fleet.core.value import Json

_NAME = r"(?:[0-9]+|[A-Za-z_][A-Za-z0-9_-]*)"
_INNER = re.compile(rf"({_NAME})((?:\.[^.{{}}]+)*)")
_WHOLE = re.compile(rf"\$(?:({_NAME})|\{{([^{{}}]*)\}})")
_TEXT = re.compile(rf"(?P<escape>\\\$(?=[A-Za-z0-9_{{]))|\$\{{(?P<inner>[^{{}}]*)\}}|\$(?P<bare>{_NAME})")
_VARIABLE = re.compile(r"\\\$|\$(?:(?P<bare>[0-9]+|[A-Za-z_][A-Za-z0-9_]*)|\{(?P<inner>[^{}]*)\})")
_DOLLAR = re.compile(r"\$(?=[A-Za-z0-9_{])")
_AMOUNT = re.compile(
    r"[.,]\d|\s?%|[\s-]?(?:hundred|thousand|million|billion|trillion|mn|bn|tn|k|m|b|usd|dollars?|bucks)\b",
    re.IGNORECASE,
)
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")

Place = tuple[str | int, ...]


class ReferenceFailed(Exception):
    """A reference leads nowhere in the value it refers to. failure: permanent, type `bad_reference`."""

    def __init__(self, message: str) -> None:
        self.failure = Failure(cls=FailureClass.PERMANENT, type="bad_reference", message=message)
        super().__init__(message)


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


def resolve(step: Step, value_of: Callable[[StepId], Json]) -> dict[str, Json]:
    """A claimed step's arguments, its holes filled with the values of the steps they refer to.

    An expression that holds variables becomes {"expression": text, "variables": {"$3": value, ...}}, each key being
    the variable as it stands in the text; an expression without a variable stays the plain string it is, so a tool
    takes both. value_of is asked once a step. Raises ReferenceFailed where a path does not exist in a value.
    """
    filled: dict[str, Json] = fill(step.args, step.holes, value_of) if step.holes else dict(step.args)
    return filled


def fill(value: Json, holes: Sequence[Hole], value_of: Callable[[StepId], Json]) -> Json:
    """As resolve, for any JSON with holes (a plan's answer). What is filled in is never searched for references."""
    once = cache(value_of)

    def place(text: str, here: Sequence[Hole]) -> Json:
        if not here:
            return text
        if here[0].mode == "value":
            return _follow(here[0].ref, once(here[0].ref.step))
        if here[0].mode == "variable":
            bound = {_variable(text, hole): _follow(hole.ref, once(hole.ref.step)) for hole in here}
            return {"expression": text, "variables": bound}
        return "".join(
            piece if isinstance(piece, str) else _as_text(_follow(piece.ref, once(piece.ref.step)))
            for piece in _pieces(text, here)
        )

    return _map_strings(value, _by_place(holes), place)


def rename(value: Json, holes: Sequence[Hole], aliases: Mapping[StepId, StepId]) -> tuple[Json, tuple[Hole, ...]]:
    """The same value with references led to other steps, in the text (`$3` becomes `$9`) as well as in the holes."""
    renamed: list[Hole] = []

    def place(text: str, here: Sequence[Hole]) -> Json:
        out, size = [], 0
        for piece in _pieces(text, here):
            written = piece if isinstance(piece, str) else _written(piece, text, aliases)
            if isinstance(piece, Hole):
                ref = piece.ref.model_copy(update={"step": aliases.get(piece.ref.step, piece.ref.step)})
                span = None if piece.span is None else (size, size + len(written))
                renamed.append(piece.model_copy(update={"ref": ref, "span": span}))
            out.append(written)
            size += len(written)
        return "".join(out)

    return _map_strings(value, _by_place(holes), place), tuple(renamed)


def rename_step(step: Step, aliases: Mapping[StepId, StepId]) -> Step:
    """The step with its arguments, holes and needs led to other steps; its own id stays."""
    args, holes = rename(step.args, step.holes, aliases)
    needs = tuple(dict.fromkeys(aliases.get(need, need) for need in step.needs))
    return step.model_copy(update={"args": args, "holes": holes, "needs": needs})


def written(value: Json, holes: Sequence[Hole]) -> Json:
    """The value as an author would write it: the inverse of holes_of, dollars that are no reference escaped again."""

    def place(text: str, here: Sequence[Hole]) -> Json:
        if here and here[0].mode != "text":
            return text
        return "".join(
            escape(piece) if isinstance(piece, str) else _written(piece, text, {}) for piece in _pieces(text, here)
        )

    return _map_strings(value, _by_place(holes), place)


def signature(step: Step) -> str:
    """Equal for two steps that do the same: tool, arguments, references, needs and join policy, however written."""

    def place(text: str, here: Sequence[Hole]) -> Json:
        if not here:
            return text
        pieces = [
            piece if isinstance(piece, str) else {"mode": piece.mode, "step": piece.ref.step, "path": piece.ref.path}
            for piece in _pieces(text, here)
        ]
        return {"pieces": pieces}

    args = _map_strings(step.args, _by_place(step.holes), place)
    return _compact([step.tool, args, sorted(step.needs), step.join.model_dump(mode="json")], sort_keys=True)


def escape(text: str) -> str:
    """Text in which no dollar can be taken for a reference, nor for an escape."""
    return _DOLLAR.sub(r"\\$", text)


def needs_of(holes: Sequence[Hole]) -> tuple[StepId, ...]:
    """The steps that holes refer to, without repeats, in order of mention."""
    return tuple(dict.fromkeys(hole.ref.step for hole in holes))


def show(ref: Ref) -> str:
    """`$3`, or `${3.rows.0}` where there is a path."""
    if not ref.path:
        return f"${ref.step}"
    return "${" + ".".join([ref.step, *map(str, ref.path)]) + "}"


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


def _by_place(holes: Sequence[Hole]) -> dict[Place, list[Hole]]:
    places: dict[Place, list[Hole]] = {}
    for hole in sorted(holes, key=lambda hole: hole.span or (0, 0)):
        places.setdefault(hole.at, []).append(hole)
    return places


def _map_strings(
    value: Json,
    places: Mapping[Place, Sequence[Hole]],
    make: Callable[[str, Sequence[Hole]], Json],
    at: Place = (),
) -> Json:
    if isinstance(value, str):
        return make(value, places.get(at, ()))
    if isinstance(value, Mapping):
        return {key: _map_strings(item, places, make, (*at, key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_map_strings(item, places, make, (*at, index)) for index, item in enumerate(value)]
    return value


def _pieces(text: str, holes: Sequence[Hole]) -> Iterator[str | Hole]:
    last = 0
    for hole in holes:
        if hole.span is None:  # the whole string
            yield hole
            return
        yield text[last : hole.span[0]]
        yield hole
        last = hole.span[1]
    yield text[last:]


def _variable(text: str, hole: Hole) -> str:
    return show(hole.ref) if hole.span is None else text[slice(*hole.span)]


def _written(hole: Hole, text: str, aliases: Mapping[StepId, StepId]) -> str:
    ref = hole.ref.model_copy(update={"step": aliases.get(hole.ref.step, hole.ref.step)})
    braces = hole.mode == "text" or "-" in ref.step or "{" in _variable(text, hole)
    return "${" + ".".join([ref.step, *map(str, ref.path)]) + "}" if braces else show(ref)


def _follow(ref: Ref, value: Json) -> Json:
    for depth, key in enumerate(ref.path):
        if isinstance(value, Mapping) and str(key) in value:
            value = value[str(key)]
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            here = show(Ref(step=ref.step, path=ref.path[:depth]))
            raise ReferenceFailed(f'{show(ref)} does not exist: {here} is {_kind(value)}, and has no "{key}"')
    return value


def _kind(value: Json) -> str:
    if isinstance(value, Mapping):
        keys = ", ".join(list(map(str, value))[:10])
        return f"an object with the keys {keys[:200]}" if keys else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "null" if value is None else f"a {type(value).__name__}"


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else _compact(value)


def _compact(value: Json, sort_keys: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
