"""Billed calls: written ahead, answered from the ledger after a crash, behind a breaker, within a budget.

A call is known by (run, step, ordinal of the call within the step), never by the attempt: so a second attempt finds
what the first one paid for.
"""

import asyncio
import hashlib
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TypeVar

from fleet.core.attempt import Attempt
from fleet.core.breaker import BreakerPolicy, BreakerState, counts
from fleet.core.budget import Usage
from fleet.core.ids import RunId
from fleet.core.outcome import Failure, FailureClass
from fleet.engine.deps import Deps
from fleet.errors import StoreUnreachable
from fleet.llm.port import Model, ModelFailed, ModelRequest, Recalled, Recalls, Reply
from fleet.store.sql.ledger import CallKey, CallRow
from fleet.telemetry import failed as span_failed
from fleet.telemetry import note

T = TypeVar("T")
log = logging.getLogger("fleet.calls")
MODEL_BREAKER = BreakerPolicy()
BROKEN_OFF = Failure(
    cls=FailureClass.IN_DOUBT, type="broken_off", message="broken off before its reply was whole: it may be billed"
)
NOT_MADE = Failure(type="not_made", message="the attempt was told to stop before the call was made")


class LedgeredModel:
    """A model whose calls are billed to the goal of one attempt. It is itself a Model, so a tool may hold it."""

    def __init__(self, model: Model, attempt: Attempt, deps: Deps) -> None:
        self.name = model.name
        self._model = model
        self._attempt = attempt
        self._deps = deps
        self._ordinals = itertools.count()
        self._parent = deps.telemetry.here(attempt.context.traceparent)

    async def complete(self, request: ModelRequest) -> Reply:
        """The reply, from the ledger if it was paid for before. Raises ModelFailed."""
        key = self._key()
        row = await self._opened(key, request)
        if row.state == "done":
            return Reply.model_validate(row.response)
        self._deps.crash.reached(self._attempt.step.kind, "before_effect")
        async with self._closing(key):
            with self._chat() as told:
                reply = await self._model.complete(self._keyed(request, row))
                told(reply)
        self._deps.crash.reached(self._attempt.step.kind, "after_effect")
        await _surely(lambda: self._done(key, reply))
        return reply

    async def stream(self, request: ModelRequest) -> AsyncIterator[str | Reply]:
        """Text as it comes and the reply at last; a paid one comes from the ledger at once. Raises ModelFailed."""
        key = self._key()
        row = await self._opened(key, request)
        if row.state == "done":
            reply = Reply.model_validate(row.response)
            yield reply.text
            yield reply
            return
        self._deps.crash.reached(self._attempt.step.kind, "before_effect")
        async with self._closing(key):
            with self._chat() as told:
                async for item in self._model.stream(self._keyed(request, row)):
                    if isinstance(item, Reply):
                        told(item)
                        self._deps.crash.reached(self._attempt.step.kind, "after_effect")
                        await _surely(lambda reply=item: self._done(key, reply))  # type: ignore[misc]
                    yield item

    async def _opened(self, key: CallKey, request: ModelRequest) -> CallRow:
        """The row, written ahead. Who is told to stop meanwhile has not made the call, and leaves that on record."""
        row = await self._stoppable(key, lambda: self._open(key, request))
        if not self._to_recall(row):
            return row
        said = await self._asked_back(row)
        if said.reply is None:
            return await self._stoppable(key, lambda: self._admitted(row, made=said.made))
        reply = said.reply
        return await _surely(lambda: self._found(row, reply))

    async def _stoppable(self, key: CallKey, work: Callable[[], CallRow]) -> CallRow:
        opening = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            with suppress(ModelFailed, StoreUnreachable):
                row = await opening
                if row.state == "open" and row.fresh:  # else an earlier attempt may have made it: that stands
                    await _surely(lambda: self._deps.record.ledger.failed(key, NOT_MADE, Usage()))
            raise

    @asynccontextmanager
    async def _closing(self, key: CallKey) -> AsyncIterator[None]:
        """Closes the row of a call that came to nothing, or was broken off. One that is done stays done."""
        try:
            yield
        except ModelFailed as failed:
            error = failed
            await _surely(lambda: self._failed(key, error))
            raise
        except (asyncio.CancelledError, GeneratorExit):
            used = Usage(calls=1)
            await _surely(lambda: self._deps.record.ledger.failed(key, BROKEN_OFF, used))
            raise

    @contextmanager
    def _chat(self) -> Iterator[Callable[[Reply], None]]:
        """The span of one call: its name, model, usage and error, and never what was said."""
        attempt = self._attempt
        about = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": self.name,
            "gen_ai.conversation.id": attempt.context.goal,
            "fleet.run.id": attempt.context.run,
            "fleet.step.id": attempt.step.id,
        }
        span = self._deps.telemetry.begin(f"chat {self.name}", self._parent, about)

        def told(reply: Reply) -> None:
            note(
                span,
                gen_ai__response__model=reply.model or self.name,
                gen_ai__response__finish_reasons=(reply.finish,),
                gen_ai__usage__input_tokens=reply.usage.input_tokens,
                gen_ai__usage__output_tokens=reply.usage.output_tokens,
            )

        try:
            yield told
        except ModelFailed as wrong:
            span_failed(span, wrong.failure.type)
            raise
        except (asyncio.CancelledError, GeneratorExit):
            span_failed(span, BROKEN_OFF.type)
            raise
        finally:
            if span is not None:
                span.end()

    def _key(self) -> CallKey:
        attempt = self._attempt
        return CallKey(attempt.context.run, attempt.step.id, next(self._ordinals))

    def _keyed(self, request: ModelRequest, row: CallRow) -> ModelRequest:
        return request.model_copy(update={"key": row.idempotency_key})

    def _to_recall(self, row: CallRow) -> bool:
        return _in_doubt(row) and isinstance(self._model, Recalls)

    async def _asked_back(self, row: CallRow) -> Recalled:
        """What the provider says of the call. Raises ModelFailed where it can't be asked now, so that one waits."""
        assert isinstance(self._model, Recalls)  # noqa: S101 - for the type checker
        try:
            return await self._model.recall(row.idempotency_key)
        except ModelFailed as failed:
            if failed.failure.retryable:
                raise
            log.warning("call %s is not asked back: %s", row.idempotency_key, failed)
            return Recalled()

    def _found(self, row: CallRow, reply: Reply) -> CallRow:
        """Closes a call with the reply that its provider kept. One that was broken off is counted as a call already."""
        log.info("call %s was asked back from %s", row.idempotency_key, self.name)
        usage = reply.usage.model_copy(update={"calls": 0 if row.state == "failed" else 1})
        return self._deps.record.ledger.done(row.key, reply.model_dump(mode="json", exclude_defaults=True), usage)

    def _open(self, key: CallKey, request: ModelRequest) -> CallRow:
        """Written ahead, and admitted; but one whose end is unknown only where its provider can't be asked."""
        ledger = self._deps.record.ledger
        asked = hashlib.sha256(request.model_dump_json(exclude={"key"}).encode()).hexdigest()
        reservation = Usage(calls=1, output_tokens=request.max_tokens)
        row = ledger.open(key, "model", self.name, reservation, f"{key.run}:{key.step}:{key.ordinal}", asked)
        return row if row.state == "done" or self._to_recall(row) else self._admitted(row)

    def _admitted(self, row: CallRow, *, made: bool = True) -> CallRow:
        """Open, within budget and breaker. A call whose end is unknown is issued again, and counted as such.

        made: False where the provider knows that it never was.
        """
        ledger = self._deps.record.ledger
        try:
            self._within_budget(row.key.run)
            self._behind_breaker()
        except ModelFailed as refused:
            if row.fresh:  # it was not made: a later attempt that finds the row must not take it for one in doubt
                ledger.failed(row.key, refused.failure, Usage())
            raise
        if row.fresh:
            return row
        if _in_doubt(row) and made:
            ledger.reopen(row.key)
            ledger.reissue(row.key)
        return ledger.reopen(row.key)  # as it stands by now: the attempt that was given up may have closed it after all

    def _within_budget(self, run: RunId) -> None:
        budget = self._deps.goal_of(run).goal.budget
        if budget.tokens is None and budget.money is None:
            return
        bound = budget.over(self._deps.record.ledger.usage(run))
        if bound:
            raise ModelFailed(
                Failure(cls=FailureClass.BUDGET, type="over_budget", message=f"the goal's budget of {bound} is used up")
            )

    def _behind_breaker(self) -> None:
        state, wait = self._deps.live.breakers.admit(f"model:{self.name}", MODEL_BREAKER)
        if state is BreakerState.OPEN:
            raise ModelFailed(breaker_open(f"model {self.name}", wait))

    def _done(self, key: CallKey, reply: Reply) -> None:
        usage = reply.usage.model_copy(update={"calls": 1})
        self._deps.record.ledger.done(key, reply.model_dump(mode="json", exclude_defaults=True), usage)
        tallied(f"model:{self.name}", MODEL_BREAKER, self._deps, good=True)

    def _failed(self, key: CallKey, failed: ModelFailed) -> None:
        self._deps.record.ledger.failed(key, failed.failure, failed.usage.model_copy(update={"calls": 1}))
        if counts(failed.failure):
            tallied(f"model:{self.name}", MODEL_BREAKER, self._deps, good=False)


def _in_doubt(row: CallRow) -> bool:
    """Whether an earlier attempt may have made the call, and its end is not known."""
    broken_off = row.failure is not None and row.failure.type == BROKEN_OFF.type
    return (row.state == "open" and not row.fresh) or broken_off


async def _surely(work: Callable[[], T]) -> T:
    """In a thread, and to its end, even if the task that waits for it is cancelled meanwhile."""
    going = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(going)
    except asyncio.CancelledError:
        await asyncio.wait({going})
        raise


def tallied(name: str, policy: BreakerPolicy, deps: Deps, *, good: bool) -> None:
    """Tell a breaker how a call went. The call was made: that Redis is away now must not have it made again."""
    try:
        deps.live.breakers.tally(name, policy, good=good)
    except StoreUnreachable as away:
        log.warning("breaker %s was not told: %s", name, away)


def breaker_open(name: str, wait: float) -> Failure:
    return Failure(
        cls=FailureClass.BREAKER, type="breaker_open", message=f"{name} is down: its breaker is open", retry_after=wait
    )


def usage_of(attempt: Attempt, deps: Deps) -> Usage:
    """What all calls of one step used, those of earlier attempts included."""
    return deps.record.ledger.usage(attempt.context.run, attempt.step.id)
