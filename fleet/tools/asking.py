"""How a tool asks the light model: one prompt, one text."""

import json
from importlib.resources import files
from string import Template

from fleet.core.value import Json
from fleet.llm.port import Message, ModelFailed, ModelRequest
from fleet.tools.context import ToolContext
from fleet.tools.tool import ToolFailed

NO_MODEL = "no model is configured: set FLEET_STEP_MODEL or FLEET_PLANNER_MODEL (provider:name), and its key"


async def ask(ctx: ToolContext, prompt: str) -> str:
    """The light model's answer. Raises ToolFailed: no_model (permanent), or what the model failed of."""
    if ctx.model is None:
        raise ToolFailed("no_model", NO_MODEL)
    request = ModelRequest(purpose="step", messages=(Message(role="user", text=prompt),), key=ctx.idempotency_key)
    try:
        return (await ctx.model.complete(request)).text
    except ModelFailed as failed:
        failure = failed.failure
        raise ToolFailed(failure.type, failure.message, failure.cls, failure.retry_after) from failed


def filled(prompt: str, /, **fields: object) -> str:
    """The prompt file of that name with its fields filled. Raises KeyError for a field that is missing."""
    written = files("fleet.tools.builtin").joinpath(f"prompts/{prompt}.md").read_text(encoding="utf-8")
    return Template(written).substitute(fields)


def as_text(value: Json) -> str:
    """A value of an earlier step as a model reads it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
