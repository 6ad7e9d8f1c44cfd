"""search and read over the shipped corpus, each after the pause that a call over the network would take.

The goal's label `latency` says how long a search waits, in seconds; a read waits half as long. Without it none does.
"""

import asyncio
import functools
from pathlib import Path
from typing import Annotated

from pydantic import Field

from fleet.settings import load_settings
from fleet.tools.context import ToolContext
from fleet.tools.decorator import tool
from fleet.tools.documents import DocumentIndex

CORPUS = Path(__file__).parent / "corpus"
DATABASE = "corpus.sqlite"
"""The index's file in the data folder."""


@tool(seconds=1.0, breaker=None)
async def search(
    query: Annotated[str, "words to look for"],
    ctx: ToolContext,
    limit: Annotated[int, Field(ge=1, le=20, description="how many sentences at most")] = 4,
) -> list[dict[str, str]]:
    """Find sentences in the documents, best first: each has a source (for read, "a.md#12") and its text."""
    await asyncio.sleep(_latency(ctx))
    hits = await asyncio.to_thread(_index().search, query, limit)
    return [{"source": hit.source, "text": hit.text} for hit in hits]


@tool(seconds=0.5, breaker=None)
async def read(
    source: Annotated[str, "a document (a.md) or a sentence of it (a.md#12)"],
    ctx: ToolContext,
    following: Annotated[int, Field(ge=0, le=50, description="how many sentences after it to read as well")] = 0,
) -> str:
    """Read a document, or a sentence of it and some that follow."""
    await asyncio.sleep(_latency(ctx) / 2)
    document, _, number = source.partition("#")
    wanted = f"{document}#{number}-{int(number) + following}" if following and number.isdigit() else source
    return await asyncio.to_thread(_index().read, wanted)


def _latency(ctx: ToolContext) -> float:
    return float(ctx.labels.get("latency", 0.0))


@functools.cache
def _index() -> DocumentIndex:
    return DocumentIndex(CORPUS, load_settings().data / DATABASE)
