"""Values on their way between steps: small ones inline, big ones as artifacts, all of them JSON."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from fleet.core.attempt import Attempt
from fleet.core.ids import StepId
from fleet.core.outcome import Failure, FailureClass, Outcome, Status
from fleet.core.value import Json
from fleet.engine.deps import Deps

PLAIN = (type(None), bool, int, float, str)


class ValueMissing(Exception):
    """A step refers to one that gave no value: it can't run."""

    def __init__(self, step: str) -> None:
        self.failure = Failure(
            cls=FailureClass.PERMANENT, type="no_value", message=f"step {step} gave no value to refer to"
        )
        super().__init__(self.failure.message)


def succeeded(value: Any, deps: Deps) -> Outcome:
    """The outcome of a call that gave `value`. What JSON can't hold is a failure, not a crash."""
    try:
        found = value if isinstance(value, PLAIN) else to_jsonable_python(value)
        if isinstance(found, PLAIN) and not isinstance(found, str):
            return Outcome(status=Status.SUCCEEDED, value=found)
        body = to_json(found)
    except (PydanticSerializationError, ValueError) as wrong:
        message = f"the tool gave a value that JSON can't hold: {wrong}"
        return Outcome(status=Status.FAILED, failure=Failure(type="not_json", message=message))
    if len(body) <= deps.settings.inline_bytes:
        return Outcome(status=Status.SUCCEEDED, value=found)
    return Outcome(status=Status.SUCCEEDED, artifact=deps.artifacts.put(body))


def value_of(outcome: Outcome, deps: Deps) -> Json:
    """An outcome's value, fetched where it is an artifact."""
    if outcome.artifact is not None:
        return json.loads(deps.artifacts.get(outcome.artifact))
    return outcome.value


def lookup(attempt: Attempt, ids: list[str], deps: Deps) -> Callable[[StepId], Json]:
    """Gives the value of each step that an attempt refers to; reads those that did not travel with the claim."""
    missing = [i for i in ids if i not in attempt.outcomes]
    outcomes: Mapping[StepId, Outcome] = attempt.outcomes
    if missing:
        outcomes = {**outcomes, **deps.live.runs.outcomes(attempt.context.run, missing)}

    def find(step: StepId) -> Json:
        outcome = outcomes.get(step)
        if outcome is None or not outcome.ok:
            raise ValueMissing(step)
        return value_of(outcome, deps)

    return find
