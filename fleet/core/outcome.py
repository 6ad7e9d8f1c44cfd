"""What an attempt, and so a step, came to."""

from enum import StrEnum

from pydantic import NonNegativeFloat

from fleet.core.budget import Usage
from fleet.core.ids import StepId
from fleet.core.value import Json, Value


class Status(StrEnum):
    """How a step ended. skipped: it never ran, since a step it needs did not succeed. lost: it took workers down."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    LOST = "lost"


class FailureClass(StrEnum):
    """Who deals with a failure (DESIGN, "Failure is data").

    transient: the engine, by retrying. misuse: the model, which called it wrong. permanent: the joiner, by a replan.
    in_doubt: a `writes` call that may or may not have happened: a person or a policy.
    """

    TRANSIENT = "transient"
    MISUSE = "misuse"
    PERMANENT = "permanent"
    BREAKER = "breaker"
    BUDGET = "budget"
    IN_DOUBT = "in_doubt"
    LOST = "lost"


class Failure(Value):
    """A typed error. type: a short machine-readable word (`not_found`); message: for people and models."""

    cls: FailureClass = FailureClass.PERMANENT
    type: str
    message: str
    retry_after: NonNegativeFloat | None = None

    @property
    def retryable(self) -> bool:
        return self.cls is FailureClass.TRANSIENT


class Artifact(Value):
    """A big value kept outside Redis, named by its content: `sha256:<hex>`, size in bytes."""

    ref: str
    size: int
    preview: str = ""


class Outcome(Value):
    """The end of a step. value: what it gave, where it succeeded and is small; artifact: where it is big."""

    status: Status
    value: Json = None
    artifact: Artifact | None = None
    failure: Failure | None = None
    because: tuple[StepId, ...] = ()
    usage: Usage = Usage()
    seconds: NonNegativeFloat = 0.0
    attempts: int = 1

    @property
    def ok(self) -> bool:
        return self.status is Status.SUCCEEDED
