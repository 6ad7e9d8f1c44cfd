"""Pass of plans whose steps may stand in any order: sort them so that each follows what it needs, or name the cycle."""

import heapq
from collections.abc import Mapping, Sequence

from fleet.core.ids import StepId
from fleet.core.plan import Problem
from fleet.core.tool import ToolSpec
from fleet.planning.finding import holes_of
from fleet.planning.lines import RawCall
from fleet.planning.references import needs_of


def wanted(raw: RawCall, spec: ToolSpec | None) -> tuple[StepId, ...]:
    """Every step a line refers to or names as a need. spec: its tool's, where there is such a tool."""
    expressions = spec.expressions if spec else frozenset[str]()
    names = list(spec.parameters.get("properties", {})) if spec else []
    placed = {names[i] if i < len(names) else f"#{i}": value for i, value in enumerate(raw.args)}
    _, holes, _ = holes_of({**placed, **raw.kwargs}, expressions, ())
    return tuple(dict.fromkeys([*needs_of(holes), *raw.needs]))


def ordered(calls: Sequence[RawCall], specs: Mapping[str, ToolSpec]) -> tuple[tuple[RawCall, ...], tuple[Problem, ...]]:
    """The calls, each after those it needs and else as they stood; or problems that name a cycle step by step.

    References to itself or to no step are left to the line pass. Of calls with one id, the first stands for it.
    """
    at: dict[StepId, int] = {}
    for index, raw in enumerate(calls):
        at.setdefault(raw.id, index)
    waits = [{at[need] for need in wanted(raw, specs.get(raw.tool)) if need in at and need != raw.id} for raw in calls]
    done, order = _sorted(waits)
    if len(order) == len(calls):
        return tuple(calls[index] for index in order), ()
    cycle = _cycle(waits, done)
    path = " -> ".join(calls[index].id for index in [*cycle, cycle[0]])
    first = calls[cycle[0]]
    say = f"the steps wait for each other ({path}): take one of these references or needs out"
    return (), (Problem(code="cycle", message=say, step=first.id, line=first.line),)


def _sorted(waits: Sequence[set[int]]) -> tuple[set[int], list[int]]:
    """What is done and in which order: of the steps that could come next, the first in the document."""
    done: set[int] = set()
    order: list[int] = []
    children: dict[int, list[int]] = {}
    missing = [len(needs) for needs in waits]
    for index, needs in enumerate(waits):
        for need in needs:
            children.setdefault(need, []).append(index)
    ready = [index for index in range(len(waits)) if not missing[index]]
    while ready:
        index = heapq.heappop(ready)
        done.add(index)
        order.append(index)
        for child in children.get(index, ()):
            missing[child] -= 1
            if not missing[child]:
                heapq.heappush(ready, child)
    return done, order


def _cycle(waits: Sequence[set[int]], done: set[int]) -> list[int]:
    """One cycle among the steps left over: each of them waits for another one left over, so a walk must come back."""
    walk: list[int] = []
    here = next(index for index in range(len(waits)) if index not in done)
    while here not in walk:
        walk.append(here)
        here = min(waits[here] - done)
    return walk[walk.index(here) :]
