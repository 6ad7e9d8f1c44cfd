"""fetch: a page of the open web, as text."""

from typing import Annotated

from pydantic import Field

from fleet.core.breaker import BreakerPolicy
from fleet.core.value import Json
from fleet.tools.decorator import tool
from fleet.tools.tool import Tool
from fleet.tools.web import Fetcher, readable

MANY = BreakerPolicy(failures=20)
"""One breaker serves all hosts: a few hosts that are down must not close the way to the others."""


def fetch_tool(fetcher: Fetcher) -> Tool:
    """The tool fetch, with this fetcher."""

    @tool(breaker=MANY, timeout=30, seconds=2)
    async def fetch(url: Annotated[str, Field(max_length=4000, description="http:// or https://")]) -> dict[str, Json]:
        """Fetch a public web page, and give its url (after redirects), title and text.

        Raises ToolFailed with the types of Fetcher.fetch.
        """
        page = await fetcher.fetch(url)
        title, text = readable(page)
        return {"url": page.url, "title": title, "text": text}

    return fetch


fetch = fetch_tool(Fetcher())
