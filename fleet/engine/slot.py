"""A slot of a worker: claims a step, runs it, commits it, and goes on with the next for a while.

The order at the end of an attempt: (1) outcome into the SQL journal, and what stands there is the outcome; (2) one
script that stores it, releases what waited, claims the next step and sends the messages that wake further slots. A
crash between the two loses nothing: a later attempt looks into the journal before it does anything.
"""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, repeat
from typing import Any, TypeVar

from fleet.core.attempt import Attempt
from fleet.core.outcome import Failure, FailureClass, Outcome, Status
from fleet.engine import finish, join, plan, step
from fleet.engine.deps import Deps
from fleet.engine.holding import Hold, Holding
from fleet.engine.moves import Park, Result, Settle, Unwanted
from fleet.engine.told import Told
from fleet.errors import StoreUnreachable
from fleet.store.artifacts import ArtifactLost
from fleet.store.shapes import Wake, json_of
from fleet.store.steps import Answer, Next, Place
from fleet.telemetry import failed as span_failed

T = TypeVar("T")
log = logging.getLogger("fleet.slot")

RUNNERS = {"plan": plan.run, "tool": step.run, "join": join.run}
PATIENCE = 0.1
"""Seconds between tries at a store that is away."""
READS = 5
"""Tries to read an artifact that is not there: a folder that machines share may be late."""


class Slot:
    """Runs in one thread at a time. told: hears of each attempt, for whoever shows them (Flower)."""

    def __init__(self, deps: Deps, holding: Holding, place: Place, told: Told) -> None:
        self._deps = deps
        self._holding = holding
        self._place = place
        self._told = told

    def carry(self, woken: Wake | None) -> int:
        """Go on from a wake-up until nothing is ready, the time slice is over, or the worker stops: steps carried."""
        until = time.monotonic() + self._deps.settings.slice
        if self._holding.stopping.is_set():
            return 0
        attempt, _ = self._deps.live.steps.claim(self._place, woken)
        self._deps.crash.reached("any", "after_send")
        carried = 0
        while attempt is not None:
            self._deps.crash.reached(attempt.step.kind, "after_claim")
            attempt = self._run(attempt, until).attempt
            carried += 1
        return carried

    def _run(self, attempt: Attempt, until: float) -> Next:
        hold = self._holding.add(attempt)
        try:
            self._told.started(attempt)
            with self._span(attempt) as span:
                result = self._result(hold)
                if isinstance(result, Settle):
                    result = self._journaled(attempt, result)
                    _mark(span, result.outcome)
            self._told.ended(attempt, result)
            body = json_of(result.outcome) if isinstance(result, Settle) else ""
            following = self._write(hold, result, body, until)
        finally:
            self._holding.remove(hold)
        self._after(attempt, result, body, following)
        return following

    def _result(self, hold: Hold) -> Result:
        """What the attempt comes to. What an earlier attempt put on record stands."""
        attempt = hold.attempt
        try:
            return self._stands(attempt) or self._came_to(hold)
        except Unwanted as why:
            return Park(delay=0.0, reason=str(why), retry=False)
        except ArtifactLost as lost:
            if attempt.retries < READS:
                return Park(delay=1.0, reason=str(lost))
            failure = Failure(cls=FailureClass.PERMANENT, type="artifact_lost", message=str(lost))
            return Settle(outcome=Outcome(status=Status.FAILED, failure=failure, attempts=attempt.number))
        except StoreUnreachable as away:
            log.warning("step let go of: %s", away, extra=_about(attempt))
            return Park(delay=1.0, reason=str(away), retry=False)
        except Exception as bug:
            log.exception("step failed in the engine", extra=_about(attempt))
            failure = Failure(cls=FailureClass.PERMANENT, type=type(bug).__name__, message=str(bug)[:2000])
            return Settle(outcome=Outcome(status=Status.FAILED, failure=failure, attempts=attempt.number))

    def _stands(self, attempt: Attempt) -> Settle | None:
        if attempt.number == 1 or attempt.step.kind != "tool":
            return None
        stands = self._patiently(lambda: self._deps.record.outcomes.get(attempt.context.run, attempt.step.id))
        return Settle(outcome=stands, journal="done") if stands is not None else None

    def _came_to(self, hold: Hold) -> Result:
        if hold.stopped:
            raise Unwanted(hold.why)
        return RUNNERS[hold.attempt.step.kind](hold, self._deps)

    def _journaled(self, attempt: Attempt, result: Settle) -> Settle:
        """(1) The outcome on record, or the one that stood there already; and the run's end with it."""
        if result.journal != "before":
            return result
        run, outcomes = attempt.context.run, self._deps.record.outcomes
        stands = self._patiently(lambda: outcomes.put(run, attempt.step.id, result.outcome, attempt.fence))
        end = result.end
        if end is None and attempt.step.kind == "join":
            end = self._patiently(lambda: join.end_without(run, attempt.step.id, stands, self._deps))
        if end is not None:
            wanted = end
            end = self._patiently(lambda: finish.on_record(run, wanted, self._deps))
        self._deps.crash.reached(attempt.step.kind, "after_journal")
        return Settle(outcome=stands, end=end, journal="done")

    def _write(self, hold: Hold, result: Result, body: str, until: float) -> Next:
        """(2) One script."""
        steps, attempt = self._deps.live.steps, hold.attempt
        want = time.monotonic() < until and not self._holding.stopping.is_set()
        if isinstance(result, Settle):
            ways = chain([steps.commit], repeat(steps.commit_again))
            return self._patiently(
                lambda: next(ways)(attempt, result.outcome, self._place, body=body, want=want, end=result.end)
            )
        return self._patiently(
            lambda: steps.park(attempt, result.delay, result.reason, self._place, retry=result.retry, want=want)
        )

    def _after(self, attempt: Attempt, result: Result, body: str, following: Next) -> None:
        """What is left to do once the outcome stands. What fails here is done by the sweeper."""
        self._deps.crash.reached(attempt.step.kind, "after_commit")
        try:
            self._follow(attempt, result, body, following)
        except Exception:
            log.exception("left to the sweeper", extra=_about(attempt))

    def _follow(self, attempt: Attempt, result: Result, body: str, following: Next) -> None:
        run = attempt.context.run
        if following.answer not in (Answer.COMMITTED, Answer.PARKED):
            log.info("outcome was late: %s", following.answer, extra=_about(attempt))
        elif isinstance(result, Settle) and result.journal == "behind":
            self._deps.record.outcomes.put_behind(run, attempt.step.id, body, attempt.fence)
        more = following.more
        while more:
            more, _ = self._deps.live.steps.cascade(run)
        if following.closed:
            finish.cancelled(run, self._deps)

    def _patiently(self, work: Callable[[], T]) -> T:
        """Ask a store that is away until it answers; give up only when the worker is being stopped."""
        said = False
        while True:
            try:
                return work()
            except StoreUnreachable as away:
                if self._holding.stopping.is_set():
                    raise
                if not said:
                    log.warning("waiting for a store: %s", away)
                said = True
                self._deps.sleep(PATIENCE)

    def _span(self, attempt: Attempt) -> AbstractContextManager[Any]:
        if not self._deps.telemetry.on:
            return nullcontext()
        name = {"plan": "plan planner", "join": "invoke_agent joiner"}.get(
            attempt.step.kind, f"execute_tool {attempt.step.tool}"
        )
        return self._deps.telemetry.span(
            name,
            attempt.context.traceparent,
            {
                "gen_ai.operation.name": name.split(" ", 1)[0],
                "gen_ai.conversation.id": attempt.context.goal,
                "fleet.run.id": attempt.context.run,
                "fleet.step.id": attempt.step.id,
                "fleet.step.attempt": attempt.number,
            },
        )


def _mark(span: Any, outcome: Outcome) -> None:
    if outcome.failure is not None:
        span_failed(span, outcome.failure.type)


def _about(attempt: Attempt) -> dict[str, str]:
    return {"goal": attempt.context.goal, "run": attempt.context.run, "step": attempt.step.id}
