"""The workloads, as plain DAGs: {step: (seconds of sleep, (needs, ...))} in topological order, from fixed seeds."""

import random
from collections.abc import Mapping, Sequence

from fleet.core.ids import StepId
from fleet.core.plan import Plan, Step

Dag = Mapping[str, tuple[float, Sequence[str]]]


def fan(width: int) -> Dag:
    """W1: one root, `width` independent steps, one join."""
    middle = {f"s{i}": (0.0, ("root",)) for i in range(width)}
    return {"root": (0.0, ()), **middle, "end": (0.0, tuple(middle))}


def chain(length: int = 100) -> Dag:
    """W2: a chain."""
    return {f"s{i}": (0.0, (f"s{i - 1}",) if i else ()) for i in range(length)}


def layers(depth: int = 10, width: int = 100, parents: int = 3, seed: int = 3) -> Dag:
    """W3: layers of steps that need `parents` of the layer before, and a join of the last layer."""
    chance = random.Random(seed)
    dag: dict[str, tuple[float, Sequence[str]]] = {}
    for layer in range(depth):
        for i in range(width):
            needs = [f"l{layer - 1}_{j}" for j in chance.sample(range(width), parents)] if layer else []
            dag[f"l{layer}_{i}"] = (0.0, needs)
    needed = {need for _, needs in dag.values() for need in needs}
    return {**dag, "end": (0.0, tuple(step for step in dag if step not in needed))}


def plan_of(dag: Dag, tool: str = "noop") -> Plan:
    """A plan whose steps do nothing, or sleep where the DAG says so."""
    steps = tuple(
        Step(
            id=StepId(name),
            tool="sleep" if seconds else tool,
            args={"seconds": seconds} if seconds else {},
            needs=tuple(StepId(need) for need in needs),
            seconds=seconds or 0.0002,
        )
        for name, (seconds, needs) in dag.items()
    )
    return Plan(steps=steps, answer="done")
