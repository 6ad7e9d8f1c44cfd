"""One pursuit of a goal, and how it ends."""

from collections.abc import Mapping
from enum import StrEnum

from fleet.core.ids import RunId
from fleet.core.value import Json, Value


class RunStatus(StrEnum):
    RUNNING = "running"
    ASKING = "asking"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def open(self) -> bool:
        """Whether its steps may start."""
        return self in (RunStatus.RUNNING, RunStatus.ASKING)

    @property
    def ended(self) -> bool:
        return self in (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED)


class EndReason(StrEnum):
    """Why a run ended."""

    FINISHED = "finished"
    STEPS_FAILED = "steps_failed"
    PLAN_REJECTED = "plan_rejected"
    PLANNER_FAILED = "planner_failed"
    JOINER_FAILED = "joiner_failed"
    NO_PROGRESS = "no_progress"
    TOO_MANY_REPLANS = "too_many_replans"
    TOO_MANY_STEPS = "too_many_steps"
    OVER_BUDGET = "over_budget"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"


class End(Value):
    """How a run ended. answer: the answer, or on failure the best partial result; detail: why, for people."""

    status: RunStatus
    reason: EndReason
    answer: Json = None
    detail: str = ""


class RunContext(Value):
    """What every step of a run carries with it: small, and the same for all of them. traceparent: W3C, or empty."""

    run: RunId
    goal: str
    tenant: str
    traceparent: str = ""
    labels: Mapping[str, str] = {}
