"""The same DAGs as Celery's own canvas runs them: chains of groups, a chord at each layer."""

import os
from collections.abc import Mapping

from celery import Celery, chain, group

from benchmarks.workloads import Dag

URL = os.environ.get("CANVAS_URL", "redis://127.0.0.1:6379/1")
app = Celery("canvas", broker=URL, backend=URL, set_as_current=False)
app.conf.update(result_expires=600, worker_prefetch_multiplier=4, broker_connection_retry_on_startup=True)


@app.task(name="canvas.step")  # type: ignore[untyped-decorator]
def step(_before: object, name: str) -> str:
    return name


@app.task(name="canvas.join")  # type: ignore[untyped-decorator]
def join(results: object) -> int:
    return len(results) if isinstance(results, list) else 1


def depths(dag: Dag) -> Mapping[int, list[str]]:
    """The steps by their distance from the start."""
    level: dict[str, int] = {}
    found: dict[int, list[str]] = {}
    for name, (_, needs) in dag.items():
        level[name] = 1 + max((level[need] for need in needs), default=-1)
        found.setdefault(level[name], []).append(name)
    return found


def signature(dag: Dag) -> chain:
    """Groups one after another, with a join between two of them, since groups of groups send themselves again."""
    parts: list[object] = []
    for depth, names in sorted(depths(dag).items()):
        if len(names) == 1:
            last = names[0] == "end"
            single = step.s(None, names[0]) if depth == 0 else step.s(names[0])
            parts.append(join.s() if last else single)
        elif depth == 0:
            parts.append(group(step.s(None, name) for name in names))
        else:
            previous = parts[-1]
            if isinstance(previous, group):
                parts.append(join.s())
            parts.append(group(step.s(name) for name in names))
    return chain(*parts)


def run(dag: Dag) -> object:
    return signature(dag).apply_async().get(timeout=300)
