"""What is done with references that were found: resolved when a step is claimed, renamed, written, compared."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from fleet.core.ids import StepId
from fleet.core.outcome import Failure, FailureClass
from fleet.core.plan import Hole, Ref, Step
from fleet.core.value import Json
from fleet.planning.finding import Place

_DOLLAR = re.compile(r"\$(?=[A-Za-z0-9_{])")


class ReferenceFailed(Exception):
    """A reference leads nowhere in the value it refers to. failure: permanent, type `bad_reference`."""

    def __init__(self, message: str) -> None:
        self.failure = Failure(cls=FailureClass.PERMANENT, type="bad_reference", message=message)
        super().__init__(message)


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
