"""Runs a tool step: resolve its arguments, call the tool, say what came of it."""

import asyncio
import hashlib
import json
import logging
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from fleet.core.attempt import Attempt
from fleet.core.breaker import BreakerState, counts
from fleet.core.budget import Usage
from fleet.core.outcome import Failure, FailureClass, Outcome, Status
from fleet.core.plan import Effect
from fleet.core.retry import RetryPolicy
from fleet.engine import failing, stopping, values
from fleet.engine.calls import LedgeredModel, breaker_open, tallied, usage_of
from fleet.engine.deps import Deps
from fleet.engine.holding import Hold
from fleet.engine.moves import Result, Settle, Unwanted
from fleet.engine.secrets import Secrets
from fleet.errors import StoreUnreachable, UnknownTool
from fleet.llm.port import ModelFailed
from fleet.planning.references import ReferenceFailed, resolve
from fleet.store.shapes import referred
from fleet.store.sql.ledger import CallKey, CallRow
from fleet.tools.context import ToolContext
from fleet.tools.tool import Tool, ToolFailed

NO_RETRY = RetryPolicy(attempts=1)
NO_CONTEXT = ToolContext()
STUBBORN = 5.0
"""Seconds that an async tool may take to heed its timeout."""
log = logging.getLogger("fleet.tool")


def run(hold: Hold, deps: Deps) -> Result:
    """Everything a tool can do wrong becomes a failure here, typed and without a secret in it."""
    attempt = hold.attempt
    secrets = Secrets(deps.settings.secrets)
    try:
        tool = deps.registry.get(attempt.step.tool)
        args = tool.prepare(resolve(attempt.step, values.lookup(attempt, referred(attempt.step), deps)))
    except UnknownTool as unknown:
        failure = Failure(cls=FailureClass.MISUSE, type="unknown_tool", message=str(unknown))
        return failing.decide(attempt, failure, NO_RETRY, deps)
    except (ReferenceFailed, values.ValueMissing, ToolFailed) as wrong:
        return failing.decide(attempt, wrong.failure, NO_RETRY, deps)
    started = deps.clock()
    try:
        outcome = _guarded(tool, args, hold, secrets, deps)
    except ToolFailed as wrong:
        took = max(0.0, deps.clock() - started)
        return failing.decide(attempt, secrets.masked(wrong.failure), tool.spec.retry, deps, took)
    seconds = max(0.0, deps.clock() - started)
    free = tool.spec.effect is Effect.PURE and not tool.spec.model and not _billed(tool)
    journal = "behind" if free else "before"
    known: dict[str, Any] = {"seconds": seconds, "attempts": attempt.number}
    if tool.spec.model or _billed(tool):
        known["usage"] = usage_of(attempt, deps)
    return Settle(outcome=outcome.model_copy(update=known), journal=journal)


def _billed(tool: Tool) -> bool:
    """Whether the call itself stands in the ledger."""
    return tool.spec.effect is Effect.WRITES or tool.spec.cost > 0


def _guarded(tool: Tool, args: dict[str, Any], hold: Hold, secrets: Secrets, deps: Deps) -> Outcome:
    """Behind the tool's breaker, and written ahead where it writes."""
    policy = tool.spec.breaker
    if policy is None:
        return _ahead(tool, args, hold, secrets, deps)
    state, wait = deps.live.breakers.admit(tool.spec.name, policy)
    if state is BreakerState.OPEN:
        raise _told(breaker_open(f"tool {tool.spec.name}", wait))
    try:
        outcome = _ahead(tool, args, hold, secrets, deps)
    except ToolFailed as wrong:
        tallied(tool.spec.name, policy, deps, good=not counts(wrong.failure))
        raise
    tallied(tool.spec.name, policy, deps, good=True)
    return outcome


def _ahead(tool: Tool, args: dict[str, Any], hold: Hold, secrets: Secrets, deps: Deps) -> Outcome:
    """A billed or writing call is written ahead under (run, step, 0), and answered from there if it was made before."""
    if not _billed(tool):
        deps.crash.reached("tool", "before_effect")
        outcome = _call(tool, args, hold, secrets, deps)
        deps.crash.reached("tool", "after_effect")
        return outcome
    ledger = deps.record.ledger
    row = _opened(tool, hold.attempt, deps)
    if row.state == "done":
        return Outcome.model_validate(row.response)
    deps.crash.reached("tool", "before_effect")
    try:
        outcome = _call(tool, args, hold, secrets, deps, row.idempotency_key)
    except ToolFailed as wrong:
        if wrong.failure.cls is FailureClass.IN_DOUBT:
            raise
        ledger.failed(row.key, secrets.masked(wrong.failure), Usage(calls=1))
        raise
    deps.crash.reached("tool", "after_effect")
    used = Usage(calls=1, money=tool.spec.cost)
    ledger.done(row.key, outcome.model_dump(mode="json", exclude_defaults=True), used)
    return outcome


def _opened(tool: Tool, attempt: Attempt, deps: Deps) -> CallRow:
    """The row of the call. An open one from an attempt that died: a write is in doubt, another call is issued again."""
    ledger = deps.record.ledger
    key = CallKey(attempt.context.run, attempt.step.id, 0)
    asked = hashlib.sha256(json.dumps(attempt.step.args, sort_keys=True, default=str).encode()).hexdigest()
    reserved = Usage(calls=1, money=tool.spec.cost)
    row = ledger.open(key, "tool", tool.spec.name, reserved, idempotency_key(attempt), asked)
    if row.state == "failed":
        row = ledger.reopen(key)
    if row.state == "open" and not row.fresh:
        if tool.spec.effect is Effect.WRITES:
            message = f"{tool.spec.name} may have run already: its worker was lost before it could say so"
            raise ToolFailed("in_doubt", message, FailureClass.IN_DOUBT)
        ledger.reissue(key)
    return row


def idempotency_key(attempt: Attempt) -> str:
    """The same for every attempt of the step."""
    return f"{attempt.context.run}:{attempt.step.id}:0"


def _call(tool: Tool, args: dict[str, Any], hold: Hold, secrets: Secrets, deps: Deps, key: str = "") -> Outcome:
    """key: that of a call which an earlier run made ready; else it is the attempt's own."""
    context = _context(tool, hold, secrets, deps, key) if tool.takes_context else NO_CONTEXT
    try:
        found = _awaited(tool, args, context, hold, deps) if tool.is_async else tool.call(args, context)
    except ToolFailed:
        if hold.cancelled or _heeded(tool, hold):
            return _stopped(hold, deps)
        raise
    except ModelFailed as failed:
        raise _told(failed.failure) from None
    except (StoreUnreachable, Unwanted):
        raise
    except CancelledError:
        return _stopped(hold, deps)
    except TimeoutError:
        message = f"{tool.spec.name} took longer than {hold.attempt.step.timeout:g} s"
        raise _doubted(tool, Failure(cls=FailureClass.TRANSIENT, type="timeout", message=message)) from None
    except (Exception, SystemExit) as broken:
        return _broke(tool, broken, hold, secrets, deps)
    return _given(tool, found, hold, deps)


def _broke(tool: Tool, broken: BaseException, hold: Hold, secrets: Secrets, deps: Deps) -> Outcome:
    """A call ended in an error that its tool did not mean to raise, unless it was told to stop."""
    if _heeded(tool, hold):
        return _stopped(hold, deps)
    about = {"run": hold.attempt.context.run, "step": hold.attempt.step.id}
    log.error("tool %s failed: %s", tool.spec.name, secrets.hidden(traceback.format_exc()), extra=about)
    raise _doubted(tool, failing.of_exception(broken)) from broken


def _heeded(tool: Tool, hold: Hold) -> bool:
    """Whether what came of a call, be it an error, may come of its being told to stop. A write says what is true."""
    return hold.stopped and tool.spec.effect is not Effect.WRITES


def _given(tool: Tool, found: Any, hold: Hold, deps: Deps) -> Outcome:
    """What a call gave. One that was told to stop may have heeded that, and given a part; a write has happened."""
    if _heeded(tool, hold):
        return _stopped(hold, deps)
    return values.succeeded(found, deps)


def _doubted(tool: Tool, failure: Failure) -> ToolFailed:
    """A write that broke off may have happened: only the tool itself can say that it has not."""
    if tool.spec.effect is Effect.WRITES and failure.retryable:
        return ToolFailed("in_doubt", f"{tool.spec.name} may have happened: {failure.message}", FailureClass.IN_DOUBT)
    return _told(failure)


def _stopped(hold: Hold, deps: Deps) -> Outcome:
    """A call was told to stop. Only a cancelled run has `cancelled` as an outcome."""
    if hold.cancelled:
        return _cancelled(hold)
    if hold.why == "DEADLINE":
        message = f"the step took longer than {hold.attempt.step.timeout:g} s"
        raise ToolFailed("timeout", message, FailureClass.TRANSIENT)
    if hold.stopped or deps.portal.closed:
        raise Unwanted(hold.why or "the worker stops")
    raise ToolFailed("cancelled_itself", "the tool was cancelled from within", FailureClass.TRANSIENT)


def _cancelled(hold: Hold) -> Outcome:
    return Outcome(status=Status.CANCELLED, attempts=hold.attempt.number)


def _awaited(tool: Tool, args: dict[str, Any], context: ToolContext, hold: Hold, deps: Deps) -> Any:
    timeout = hold.attempt.step.timeout

    async def within() -> Any:
        return await asyncio.wait_for(tool.call(args, context), timeout)

    try:
        return deps.portal.run(within(), stopping.ends_with(hold), timeout + STUBBORN)
    except Exception:
        if hold.stopped:  # how it takes that is no failure of the tool
            raise CancelledError from None
        raise


def _context(tool: Tool, hold: Hold, secrets: Secrets, deps: Deps, key: str) -> ToolContext:
    attempt = hold.attempt
    run, step = attempt.context.run, attempt.step.id
    extra = {"goal": attempt.context.goal, "run": run, "step": step}
    model = deps.models.step
    return ToolContext(
        idempotency_key=key or idempotency_key(attempt),
        tenant=attempt.context.tenant,
        attempt=attempt.number,
        deadline=deps.clock() + attempt.step.timeout,
        is_cancelled=hold.is_stopped,
        secret=secrets.get,
        progress=_progress(run, step, deps),
        artifact=deps.artifacts.put,
        model=LedgeredModel(model, attempt, deps) if model and tool.spec.model else None,
        step=step,
        labels=attempt.context.labels,
        log=logging.LoggerAdapter(log, extra),  # type: ignore[arg-type]
    )


def _progress(run: str, step: str, deps: Deps) -> Callable[[str], None]:
    """Shown to whoever listens right now; nobody keeps it."""

    def tell(text: str) -> None:
        with suppress(StoreUnreachable):
            deps.live.streams.progress(run, step, text[:2000])

    return tell


def _told(failure: Failure) -> ToolFailed:
    return ToolFailed(failure.type, failure.message, failure.cls, failure.retry_after)
