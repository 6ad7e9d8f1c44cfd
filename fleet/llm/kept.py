"""Replies that a provider keeps, found again by the key that their request carried.

Of what providers offer, one thing serves a worker that died before it knew any id of the provider's: OpenAI's stored
chat completions (`store`), which can be listed by their metadata. A response of its Responses API is found by its id
alone. No provider of models is known to answer a repeated Idempotency-Key with the first reply; the header is sent all
the same, for the gateways that do.
"""

from typing import Any

import openai
import pydantic_ai.messages as ai
from pydantic_ai.models import Model as Client
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.usage import RequestUsage

from fleet.core.outcome import Failure, FailureClass
from fleet.llm.port import ModelFailed

LABEL = "fleet_key"
LONGEST = 512
"""Characters of a value of the metadata."""
UNABLE = frozenset({400, 403, 404, 405, 422, 501})
"""What a server answers that keeps nothing, or does not show it to this key."""


def keeping(client: Client[Any], key: str) -> dict[str, Any]:
    """What a request's body says for its reply to be kept under a key; empty where the provider can't."""
    if not isinstance(client, OpenAIChatModel) or not key:
        return {}
    return {"store": True, "metadata": {LABEL: key[:LONGEST]}}


async def find(client: Client[Any], key: str, seconds: float) -> ai.ModelResponse | None:
    """The whole reply that is kept under a key, or None. Raises ModelFailed where the provider can't be asked now."""
    if not isinstance(client, OpenAIChatModel) or not key:
        return None
    wanted = {LABEL: key[:LONGEST]}
    try:
        page = await client.client.chat.completions.list(metadata=wanted, limit=1, order="desc", timeout=seconds)
    except openai.APIStatusError as refused:
        if refused.status_code in UNABLE:
            return None
        raise _not_now(f"status {refused.status_code}") from None
    except openai.OpenAIError as broken:
        raise _not_now(type(broken).__name__) from None
    found = [each for each in page.data or () if (each.model_dump().get("metadata") or wanted) == wanted]
    return _response(found[0], client) if found else None


def _response(kept: Any, client: OpenAIChatModel) -> ai.ModelResponse | None:
    choice = kept.choices[0] if kept.choices else None
    if choice is None or choice.finish_reason not in ("stop", "length"):
        return None
    used = kept.usage
    return ai.ModelResponse(
        parts=[ai.TextPart(choice.message.content or "")],
        usage=RequestUsage(input_tokens=used.prompt_tokens, output_tokens=used.completion_tokens)
        if used
        else RequestUsage(),
        model_name=kept.model,
        provider_name=client.system,
        provider_url=client.base_url,
        finish_reason=choice.finish_reason,
    )


def _not_now(why: str) -> ModelFailed:
    said = f"the provider could not be asked for the reply that it may keep: {why}"
    return ModelFailed(Failure(cls=FailureClass.TRANSIENT, type="not_recalled", message=said))
