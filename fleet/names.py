"""Wire names: explicit and versioned. A name, once released, keeps its meaning."""

import re
from typing import Literal

PLAN = "fleet.plan.v1"
STEP = "fleet.step.v1"
JOIN = "fleet.join.v1"
TASKS = {"plan": PLAN, "tool": STEP, "join": JOIN}
"""The Celery task that carries a step of each kind."""

TaskName = Literal["fleet.plan.v1", "fleet.step.v1", "fleet.join.v1"]

STORED_SHAPE = 1
"""The version of what is stored in Redis; a worker refuses a newer one."""


def task_id(run: str, step: str, number: int) -> str:
    """What monitors know an attempt of a step by, whoever tells them of it. number: 1 for the first."""
    return f"{run}:{step}:{number}"


def node_name(name: str, host: str) -> str:
    """A worker as Celery and Flower name it: `w1@host`. Scripts split states by it, so it holds no blank or quote."""
    return "@".join(re.sub(r"[^A-Za-z0-9_.-]", "-", part) for part in (name, host))


def node_of(worker: str) -> str:
    """The node name in a worker's id, which is `name@host.pid`."""
    return worker.rpartition(".")[0]
