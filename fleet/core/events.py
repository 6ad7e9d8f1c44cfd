"""Facts about a run, in past tense and in order."""

from collections.abc import Mapping
from enum import StrEnum

from fleet.core.value import Json, Value


class EventType(StrEnum):
    ACCEPTED = "run.accepted"
    REBUILT = "run.rebuilt"
    TAKEN_OVER = "run.taken_over"
    ASKED = "run.asked"
    ANSWERED = "run.answered"
    PAUSED = "run.paused"
    RESUMED = "run.resumed"
    CANCEL_ASKED = "run.cancel_asked"
    ENDED = "run.ended"
    PLANNED = "plan.completed"
    STEP_ADDED = "step.added"
    STEP_STARTED = "step.started"
    STEP_PARKED = "step.parked"
    STEP_LOST = "step.lost"
    STEP_ENDED = "step.ended"


class Event(Value):
    """One fact. id: `epoch-n`, gap-free within an epoch. at: seconds since 1970, by Redis's clock."""

    id: str
    type: EventType
    at: float
    step: str = ""
    data: Mapping[str, Json] = {}
