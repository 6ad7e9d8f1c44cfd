"""Models of real providers by name. Nothing of their clients is imported before the first call."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from pydantic import SecretStr

from fleet.errors import ModelUnavailable
from fleet.llm.fallback import FallbackModel
from fleet.llm.limits import Limits
from fleet.llm.port import Model, ModelRequest, Recalled, Reply

if TYPE_CHECKING:
    from fleet.llm.adapter import ProviderModel

__all__ = ["FallbackModel", "PydanticAIModel", "make_model"]


def make_model(
    name: str,
    *,
    base_url: str = "",
    key: SecretStr | None = None,
    timeout: float = 120.0,
    max_tokens: int = 4096,
    store: bool = False,
) -> Model:
    """The model of that name: `provider:model` as pydantic-ai knows it, or any name where base_url is given.

    timeout: seconds that a call may take at most; max_tokens: output tokens of a call at most; a request may ask for
    less of both. store: whether the provider is asked to keep replies (fleet.llm.kept). Several names, comma separated,
    are tried in order. Does nothing else yet: what is missing shows at the first call, or with `ready()`. Raises
    ModelUnavailable where no name is given.
    """
    names = [part.strip() for part in name.split(",") if part.strip()]
    if not names:
        raise ModelUnavailable("no model is named: set FLEET_PLANNER_MODEL to provider:model")
    limits = Limits(timeout=timeout, max_tokens=max_tokens, store=store)
    models = [PydanticAIModel(part, base_url=base_url, key=key, limits=limits) for part in names]
    return models[0] if len(models) == 1 else FallbackModel(models)


class PydanticAIModel:
    """One model of one provider, through pydantic-ai below its agent level.

    A reply schema is asked for as native JSON schema output, never as a tool call, since small models fail at those.
    The SDK's own retries are off: the engine retries, and must know of it. The idempotency key travels as a header.
    A call that can't be made for want of a key, a package or a known provider raises fleet.llm.port.Unconfigured,
    which is both a ModelFailed and a ModelUnavailable.
    """

    def __init__(
        self, name: str, *, base_url: str = "", key: SecretStr | None = None, limits: Limits | None = None
    ) -> None:
        self.name = name
        self._base_url = base_url
        self._key = key
        self._limits = limits or Limits()
        self._lock = threading.Lock()
        self._live: ProviderModel | None = None

    async def _loaded(self) -> "ProviderModel":
        """In a thread at first, since everything else that runs on the loop would wait for the import."""
        live = self._live
        return live if live is not None else await asyncio.to_thread(self._load)

    def _load(self) -> "ProviderModel":
        # Only a process that asks a model pays for importing the clients (1.8 s, 50 MiB).
        from fleet.llm.adapter import ProviderModel  # noqa: PLC0415

        with self._lock:
            live = self._live or ProviderModel(self.name, base_url=self._base_url, key=self._key, limits=self._limits)
            self._live = live
            return live

    def ready(self) -> None:
        """Raise ModelUnavailable, in one sentence, where the model can't be used. Imports the client; no network."""
        self._load().connect()

    async def aclose(self) -> None:
        """Close the connections of the running loop. Call it on that loop before it ends."""
        if self._live is not None:
            await self._live.aclose()

    async def complete(self, request: ModelRequest) -> Reply:
        return await (await self._loaded()).complete(request)

    async def recall(self, key: str) -> Recalled:
        return await (await self._loaded()).recall(key)

    async def stream(self, request: ModelRequest) -> AsyncIterator[str | Reply]:
        async with aclosing((await self._loaded()).stream(request)) as items:
            async for item in items:
                yield item
