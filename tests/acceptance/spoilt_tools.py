"""The tools of ParallelQA, with a fault in one call of a goal where its label `spoilt` says so.

The label is JSON: a step's id to the name of the article that its `extract` is given instead of the one it was meant
for, or to null, where what it read is dropped.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from fleet.tools.context import ToolContext
from fleet.tools.registry import Registry

EXAMPLE = Path(__file__).parents[2] / "examples" / "parallelqa"
_true = Registry.load([str(EXAMPLE / "tools.py")], builtins=False)


async def _extract(args: dict[str, Any], ctx: ToolContext) -> Any:
    spoilt = json.loads(ctx.labels.get("spoilt", "{}"))
    if ctx.step not in spoilt:
        return await _true.get("extract").call(args, ctx)
    if spoilt[ctx.step] is None:
        return None
    return await _true.get("extract").call(args | {"text": await _article(spoilt[ctx.step], ctx)}, ctx)


async def _article(name: str, ctx: ToolContext) -> str:
    return str(await _true.get("search").call({"query": name}, ctx))


search, calc, pick = (_true.get(name) for name in ("search", "calc", "pick"))
extract = replace(_true.get("extract"), call=_extract)
