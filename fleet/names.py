"""Wire names: explicit and versioned. A name, once released, keeps its meaning."""

from typing import Literal

PLAN = "fleet.plan.v1"
STEP = "fleet.step.v1"
JOIN = "fleet.join.v1"
TASKS = {"plan": PLAN, "tool": STEP, "join": JOIN}
"""The Celery task that carries a step of each kind."""

TaskName = Literal["fleet.plan.v1", "fleet.step.v1", "fleet.join.v1"]

STORED_SHAPE = 1
"""The version of what is stored in Redis; a worker refuses a newer one."""
