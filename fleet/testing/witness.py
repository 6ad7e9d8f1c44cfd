"""A model that counts how often it was asked, by the key of the call: what a provider knows apart from the ledger."""

from collections.abc import AsyncIterator

from fleet.llm.port import Model, ModelRequest, Reply
from fleet.testing.world import World


class Witness:
    """Asks the model that it is given."""

    def __init__(self, model: Model, world: World) -> None:
        self.name = model.name
        self._model = model
        self._world = world

    async def complete(self, request: ModelRequest) -> Reply:
        self._world.asked[request.key] += 1
        return await self._model.complete(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[str | Reply]:
        self._world.asked[request.key] += 1
        async for item in self._model.stream(request):
            yield item
