"""From settings to models."""

import asyncio
from pathlib import Path

import pytest

from fleet.errors import BadSetting
from fleet.llm.port import Message, ModelRequest
from fleet.llm.providers import FallbackModel, PydanticAIModel
from fleet.llm.scripted import ScriptedModel, Turn
from fleet.llm.select import Models, models_from
from fleet.llm.turns import write_turns
from fleet.settings import Settings


def test_no_setting_is_no_model() -> None:
    assert models_from(Settings()) == Models(planner=None, step=None)


def test_the_planner_s_model_answers_in_steps_where_no_other_is_named() -> None:
    models = models_from(Settings(planner_model="openai:gpt-5-mini"))
    assert isinstance(models.planner, PydanticAIModel)
    assert models.planner.name == "openai:gpt-5-mini"
    assert models.step is models.planner


def test_each_may_have_its_own() -> None:
    models = models_from(Settings(planner_model="a:b,c:d", step_model="qwen", model_base_url="http://127.0.0.1:9/v1"))
    assert isinstance(models.planner, FallbackModel)
    assert isinstance(models.step, PydanticAIModel)
    assert models.step.name == "qwen"


def test_a_model_for_steps_alone_plans_nothing() -> None:
    models = models_from(Settings(step_model="openai:gpt-5-mini"))
    assert models.planner is None
    assert models.step is not None


def test_a_script_stands_for_every_model(tmp_path: Path) -> None:
    path = tmp_path / "turns.jsonl"
    write_turns(path, [Turn(purpose="planner", goal="it", text="1. join()", delay_s=3600)])
    models = models_from(Settings(model_script=path, planner_model="openai:gpt-5-mini", time_scale=0.0))
    assert isinstance(models.planner, ScriptedModel)
    assert models.step is models.planner
    request = ModelRequest(purpose="planner", messages=(Message(role="user", text="plan it"),))
    assert asyncio.run(models.planner.complete(request)).text == "1. join()"


@pytest.mark.parametrize("content", [None, "nonsense", "\xff"])
def test_a_script_that_can_not_be_read_is_a_bad_setting(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "turns.jsonl"
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    with pytest.raises(BadSetting, match="model_script"):
        models_from(Settings(model_script=path))
