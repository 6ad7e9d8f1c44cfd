"""The names of things. Ids sort by the time they were made (ULID)."""

from typing import NewType

GoalId = NewType("GoalId", str)
RunId = NewType("RunId", str)
StepId = NewType("StepId", str)
WorkerId = NewType("WorkerId", str)
Fence = NewType("Fence", str)
"""The proof that an attempt holds its lease: `epoch.n`, n growing with each attempt of one step."""

PLAN = "plan."
JOIN = "join."


def plan_step(version: int) -> StepId:
    """The step that writes plan `version` (1, 2, ...)."""
    return StepId(f"{PLAN}{version}")


def join_step(version: int) -> StepId:
    """The step that looks at what plan `version` came to."""
    return StepId(f"{JOIN}{version}")


def version_of(step: StepId) -> int:
    """The plan version that a plan or join step belongs to. Raises ValueError for any other step."""
    for prefix in (PLAN, JOIN):
        if step.startswith(prefix):
            return int(step.removeprefix(prefix))
    raise ValueError(f"{step} is neither a plan nor a join step")
