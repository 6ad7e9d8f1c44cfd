"""From a model's name to a client of its provider, made by pydantic-ai."""

import inspect
import re
from typing import Any

from pydantic import SecretStr
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model, parse_model_id
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from fleet.errors import ModelUnavailable

OWN_EXTRAS = frozenset({"anthropic", "google", "bedrock"})
"""Providers for which this distribution has an extra of the same name."""

OPENAI_LIKE = frozenset({"openai", "openai-chat"})


def connect(name: str, base_url: str, key: SecretStr | None) -> Model[Any]:
    """A pydantic-ai model for `provider:model`, or, with a base URL, for any model of an OpenAI-compatible server.

    Opens no connection. Raises ModelUnavailable, in one sentence that names the variable or the package that is
    missing. A key found in the environment is never sent to a base URL: there, only `key` is used.
    """
    secret = key.get_secret_value() if key is not None else None
    try:
        return _connect(name, base_url, secret)
    except ImportError as error:
        raise ModelUnavailable(_missing_package(name, error)) from error
    except UserError as error:
        raise ModelUnavailable(_missing_setting(name, str(error))) from error


def _connect(name: str, base_url: str, key: str | None) -> Model[Any]:
    provider, model = parse_model_id(name)
    if not base_url:
        return infer_model(name, lambda known: _provider(known, {"api_key": key} if key else {}))
    if provider in OPENAI_LIKE:
        return _openai(model, base_url, key)
    if provider is None or not _known(provider):
        return _compatible(name, base_url, key)
    return infer_model(name, lambda known: _provider(known, {"base_url": base_url, "api_key": key or "none"}))


def _known(provider: str) -> bool:
    try:
        infer_provider_class(provider)
    except ValueError:
        return False
    return True


def _provider(provider: str, options: dict[str, str]) -> Provider[Any]:
    """Make a provider; refuse an option that it does not have, rather than drop it."""
    if not options:
        return infer_provider(provider)
    try:
        made = infer_provider_class(provider)
    except ValueError:
        raise UserError(f"Unknown model provider: {provider}") from None
    unknown = sorted(set(options) - set(inspect.signature(made).parameters))
    if unknown:
        raise UserError(f"the provider {provider} takes no {unknown[0]}")
    return made(**options)


def _openai(model: str, base_url: str, key: str | None) -> Model[Any]:
    """A proxy to OpenAI, or what passes for it: its profile (and prices) are OpenAI's."""
    # A stream that is cut between two chunks looks like one that ended, save for the missing finish_reason.
    profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
    return OpenAIChatModel(model, provider=OpenAIProvider(base_url=base_url, api_key=key or "none"), profile=profile)


def _compatible(model: str, base_url: str, key: str | None) -> Model[Any]:
    """A server of its own (vLLM, llama.cpp, Ollama): it knows `max_tokens` and JSON schemas."""
    profile = OpenAIModelProfile(
        supports_json_schema_output=True,
        openai_chat_supports_max_completion_tokens=False,
        openai_chat_supports_multiple_system_messages=False,
        openai_chat_streaming_requires_finish_reason=True,
    )
    provider = OpenAICompatibleProvider("openai-compatible", base_url=base_url, api_key=key or "none")
    return OpenAIChatModel(model, provider=provider, profile=profile)


def _missing_package(name: str, error: ImportError) -> str:
    provider = name.split(":", 1)[0]
    if provider in OWN_EXTRAS:
        return f"the model {name} needs a package: pip install 'celery-agent-fleet[{provider}]'"
    asked = re.search(r'pip install "([^"]+)"', str(error))
    return f"the model {name} needs a package: pip install '{asked[1] if asked else provider}'"


def _missing_setting(name: str, said: str) -> str:
    """pydantic-ai's own words, cut to what an operator of a fleet can act on."""
    variable = re.search(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_API_KEY\b", said)
    if variable:
        return f"the model {name} has no key: set FLEET_MODEL_KEY or {variable[0]}"
    if "_BASE_URL" in said:
        return f"the model {name} has no address: set FLEET_MODEL_BASE_URL"
    if "Unknown model" in said:
        return f"the model {name} is unknown: write provider:model, or set FLEET_MODEL_BASE_URL for your own server"
    return f"the model {name} can't be used: {said.split('. ', 1)[0]}"
