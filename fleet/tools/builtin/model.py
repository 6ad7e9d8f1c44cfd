"""model: one question to the light model."""

from typing import Annotated

from pydantic import Field

from fleet.core.value import Json
from fleet.tools.asking import as_text, ask, filled
from fleet.tools.context import ToolContext
from fleet.tools.decorator import tool


@tool(model=True, timeout=180, seconds=5)
async def model(
    prompt: Annotated[str, Field(min_length=1, description="what to do or to answer")],
    ctx: ToolContext,
    context: Annotated[Json, "what the answer is to be based on, such as the value of an earlier step"] = "",
) -> str:
    """Ask a language model one thing, and give its answer as text.

    Raises ToolFailed: no_model, or the model's own failure.
    """
    if context in ("", None):
        return await ask(ctx, prompt)
    return await ask(ctx, filled("model", prompt=prompt, context=as_text(context)))
