"""What to do about a failure: the table of DESIGN, "Failure is data", as one rule."""

from fleet.core.attempt import Attempt
from fleet.core.outcome import Failure, FailureClass, Outcome, Status
from fleet.core.retry import RetryPolicy
from fleet.engine.deps import Deps
from fleet.engine.moves import Park, Result, Settle

MODEL_RETRIES = RetryPolicy(attempts=4, base=0.5, cap=20.0)


def decide(attempt: Attempt, failure: Failure, policy: RetryPolicy, deps: Deps, seconds: float = 0.0) -> Result:
    """Park it for another try, or settle the step as failed. seconds: how long the try took, where that is known."""
    if failure.cls is FailureClass.BREAKER:
        return Park(delay=max(0.05, failure.retry_after or 1.0), reason=failure.message, retry=False)
    delay = policy.delay(failure, attempt.retries + 1, deps.chance())
    if delay is not None:
        return Park(delay=max(0.001, delay), reason=f"{failure.type}: {failure.message[:200]}")
    return Settle(outcome=Outcome(status=Status.FAILED, failure=failure, seconds=seconds, attempts=attempt.number))


def of_exception(error: BaseException) -> Failure:
    """The typed failure of an exception that a tool did not mean to raise."""
    transient = isinstance(error, TimeoutError | ConnectionError)
    cls = FailureClass.TRANSIENT if transient else FailureClass.PERMANENT
    return Failure(cls=cls, type=type(error).__name__, message=str(error)[:2000])
