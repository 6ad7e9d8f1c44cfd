"""From settings to models."""

from dataclasses import dataclass
from pathlib import Path

from fleet.errors import BadInput, BadSetting
from fleet.llm.fallback import aclose
from fleet.llm.port import Model
from fleet.llm.providers import make_model
from fleet.llm.scripted import ScriptedModel
from fleet.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Models:
    """planner: writes plans and joins them; step: answers in steps, and is the planner where no other is named."""

    planner: Model | None = None
    step: Model | None = None

    async def aclose(self) -> None:
        """Close the connections of the running loop. Call it on that loop before it ends."""
        await aclose(self.planner, self.step)


def models_from(settings: Settings) -> Models:
    """The models that the settings name; a script, where there is one, stands for all of them.

    Connects to nothing, and imports no client of a provider. Raises BadSetting where the script can't be read.
    """
    if settings.model_script is not None:
        store = settings.data.absolute() / "replies" if settings.model_store else None
        scripted = _script(settings.model_script, settings.time_scale, store)
        return Models(planner=scripted, step=scripted)
    planner = _model(settings, settings.planner_model)
    step = _model(settings, settings.step_model) if settings.step_model else planner
    return Models(planner=planner, step=step)


def _script(path: Path, time_scale: float, store: Path | None) -> ScriptedModel:
    try:
        return ScriptedModel.read(path, time_scale=time_scale, store=store)
    except (OSError, UnicodeDecodeError, BadInput) as wrong:
        raise BadSetting(f"model_script: {wrong}") from wrong


def _model(settings: Settings, name: str) -> Model | None:
    if not name.strip():
        return None
    return make_model(
        name,
        base_url=settings.model_base_url,
        key=settings.model_key,
        timeout=settings.model_timeout,
        max_tokens=settings.model_max_tokens,
        store=settings.model_store,
    )
