"""Several models as one: the next is asked when one can't answer."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from fleet.core.outcome import FailureClass
from fleet.llm.port import Model, ModelFailed, ModelRequest, Recalled, Recalls, Reply

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

log = logging.getLogger("fleet.llm")

UNAVAILABLE = frozenset({"unconfigured", "unauthorised", "unknown_model", "quota_exceeded"})
"""Permanent failures that speak of the model and not of the request: another model may well answer."""


class FallbackModel:
    """Asks `models` in order. A failure that another model may not share passes to the next one, the last one raises.

    A stream that has given a delta is never begun anew: its reader has acted on the text.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        if not models:
            raise ValueError("a fallback needs a model to fall back on")
        self.models = tuple(models)
        self.name = ",".join(model.name for model in models)

    async def aclose(self) -> None:
        """Close the connections of the running loop, of each model that has any."""
        await aclose(*self.models)

    async def complete(self, request: ModelRequest) -> Reply:
        for model in self.models[:-1]:
            try:
                return await model.complete(request)
            except ModelFailed as failed:
                _pass_on(model, failed)
        return await self.models[-1].complete(request)

    async def recall(self, key: str) -> Recalled:
        """The reply that any of them keeps."""
        made = False
        for model in self.models:
            said = await model.recall(key) if isinstance(model, Recalls) else Recalled()
            if said.reply is not None:
                return said
            made = made or said.made
        return Recalled(made=made)

    async def stream(self, request: ModelRequest) -> AsyncIterator[str | Reply]:
        for model in self.models:
            begun = False
            # Each model's stream is a generator that holds a connection: close it before the next one opens.
            async with aclosing(cast("AsyncGenerator[str | Reply]", model.stream(request))) as items:
                try:
                    async for item in items:
                        begun = True
                        yield item
                    return
                except ModelFailed as failed:
                    if begun or model is self.models[-1]:
                        raise
                    _pass_on(model, failed)


async def aclose(*models: Model | None) -> None:
    """Close the running loop's connections of these models, those that have any."""
    for model in models:
        close = getattr(model, "aclose", None)
        if close is not None:
            await close()


def _pass_on(model: Model, failed: ModelFailed) -> None:
    failure = failed.failure
    if failure.cls is not FailureClass.TRANSIENT and failure.type not in UNAVAILABLE:
        raise failed
    log.warning("%s did not answer (%s), asking the next model", model.name, failure.type)
