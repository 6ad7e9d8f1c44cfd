"""An attempt that is told to stop: what it waits for ends at once, and an error says what becomes of the attempt."""

from fleet.core.outcome import Failure, FailureClass
from fleet.engine.deps import Deps
from fleet.engine.holding import Hold
from fleet.engine.moves import Unwanted
from fleet.engine.portal import Begun, Stop
from fleet.llm.port import ModelFailed
from fleet.store.runs import RunClosed


def ends_with(hold: Hold) -> Begun:
    """Lets what begins on the loop end with the attempt, also where that was told to stop before."""

    def begun(stop: Stop) -> None:
        hold.on_stop = stop
        if hold.stopped:
            stop()

    return begun


def reason(hold: Hold, deps: Deps) -> Exception:
    """RunClosed: its run is being cancelled. Unwanted: another has the step, or will. ModelFailed: it may try again."""
    attempt = hold.attempt
    if hold.cancelled:
        return RunClosed(f"run {attempt.context.run} is being cancelled")
    if hold.why == "DEADLINE":
        return _failed("timeout", f"the step took longer than {attempt.step.timeout:g} s")
    if hold.stopped or deps.portal.closed:
        return Unwanted(hold.why or "the worker stops")
    return _failed("broken_off", "the model call was broken off from within")


def _failed(kind: str, message: str) -> ModelFailed:
    return ModelFailed(Failure(cls=FailureClass.TRANSIENT, type=kind, message=message))
