"""What a model is called, and what people are told when it can't be used as it is named."""

import asyncio
import subprocess
import sys

import pytest

from fleet.core.outcome import FailureClass
from fleet.errors import ModelUnavailable
from fleet.llm.port import Message, ModelFailed, ModelRequest
from fleet.llm.providers import FallbackModel, PydanticAIModel, make_model


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("openai:gpt-5-mini", "the model openai:gpt-5-mini has no key: set FLEET_MODEL_KEY or OPENAI_API_KEY"),
        (
            "anthropic:claude-haiku-4-5",
            "the model anthropic:claude-haiku-4-5 needs a package: pip install 'celery-agent-fleet[anthropic]'",
        ),
        ("groq:llama", "the model groq:llama needs a package: pip install 'pydantic-ai-slim[groq]'"),
        ("ollama:qwen", "the model ollama:qwen has no address: set FLEET_MODEL_BASE_URL"),
        (
            "gpt-5-mini",
            "the model gpt-5-mini is unknown: write provider:model, or set FLEET_MODEL_BASE_URL for your own server",
        ),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(name: str, words: str) -> None:
    model = make_model(name)
    assert isinstance(model, PydanticAIModel)
    with pytest.raises(ModelUnavailable) as caught:
        model.ready()
    assert str(caught.value) == words
    request = ModelRequest(purpose="planner", messages=(Message(role="user", text="what?"),))
    with pytest.raises(ModelFailed) as failed:
        asyncio.run(model.complete(request))
    assert isinstance(failed.value, ModelUnavailable)
    assert failed.value.failure.type == "unconfigured"
    assert failed.value.failure.cls is FailureClass.PERMANENT


def test_an_option_that_a_provider_does_not_have_is_refused_and_not_dropped() -> None:
    model = PydanticAIModel("deepseek:chat", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ModelUnavailable, match="takes no base_url"):
        model.ready()


def test_no_name_is_no_model() -> None:
    with pytest.raises(ModelUnavailable, match="FLEET_PLANNER_MODEL"):
        make_model(" , ")


def test_several_names_are_a_fallback() -> None:
    model = make_model("openai:gpt-5-mini, anthropic:claude-haiku-4-5")
    assert isinstance(model, FallbackModel)
    assert model.name == "openai:gpt-5-mini,anthropic:claude-haiku-4-5"


def test_a_worker_that_asks_no_model_imports_no_client() -> None:
    code = (
        "import sys, fleet.llm.select, fleet.llm.providers as p; p.make_model('openai:gpt-5-mini');"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'pydantic_ai', 'openai', 'httpx2', 'httpx'}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
