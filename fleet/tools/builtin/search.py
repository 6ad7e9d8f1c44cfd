"""search and read: find sentences in a folder of documents, and look them up again."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from fleet.core.value import Json
from fleet.tools.decorator import tool
from fleet.tools.documents import DocumentIndex
from fleet.tools.tool import Tool

Limit = Annotated[int, Field(ge=1, le=50, description="how many sentences at most")]


def document_tools(folder: Path, database: Path) -> tuple[Tool, Tool]:
    """The tools search and read over the documents below `folder`, indexed in the file `database` at the first call."""
    index = DocumentIndex(folder, database)

    @tool(breaker=None, seconds=0.05)
    def search(query: Annotated[str, "words to look for"], limit: Limit = 5) -> list[dict[str, Json]]:
        """Find sentences in the documents, best first: each has a source (for read, "a.md#12"), text and score."""
        return [hit.model_dump() for hit in index.search(query, limit)]

    @tool(breaker=None, seconds=0.05)
    def read(source: Annotated[str, "a document (a.md), a sentence (a.md#12) or a range (a.md#10-14)"]) -> str:
        """Read a document, or the sentences of it that a source names."""
        return index.read(source)

    return search, read
