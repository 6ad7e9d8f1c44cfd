"""When a failed attempt is tried again: a pure rule."""

from pydantic import NonNegativeFloat, NonNegativeInt

from fleet.core.outcome import Failure
from fleet.core.value import Value


class RetryPolicy(Value):
    """Exponential backoff with full jitter. attempts: tries in all, the first one included.

    Source of the jitter: M. Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015), "full jitter".
    """

    attempts: NonNegativeInt = 3
    base: NonNegativeFloat = 0.5
    cap: NonNegativeFloat = 30.0

    def delay(self, failure: Failure, tried: int, chance: float) -> float | None:
        """Seconds to wait before the next try, or None for no further one.

        tried: tries so far (1 or more). chance: uniform in [0, 1), given by the caller. A provider's Retry-After is a
        floor for the wait, never cut by the cap.
        """
        if not failure.retryable or tried >= self.attempts:
            return None
        wait = chance * min(self.cap, self.base * 2.0 ** (tried - 1))
        return max(wait, failure.retry_after or 0.0)
