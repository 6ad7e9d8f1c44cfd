"""Who hears of attempts as they start and end: Flower, through the worker's event dispatcher."""

from typing import Protocol

from fleet.core.attempt import Attempt
from fleet.engine.moves import Result


class Told(Protocol):
    """Both are called in the slot's thread and must not fail it."""

    def started(self, attempt: Attempt) -> None: ...

    def ended(self, attempt: Attempt, result: Result) -> None: ...


class Nobody:
    """Hears nothing."""

    def started(self, attempt: Attempt) -> None:
        pass

    def ended(self, attempt: Attempt, result: Result) -> None:
        pass
