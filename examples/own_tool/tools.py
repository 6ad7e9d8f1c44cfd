"""A tool of one's own: one that reads, one that writes and says so."""

from pathlib import Path
from typing import Annotated

from fleet.core.outcome import FailureClass
from fleet.tools.context import ToolContext
from fleet.tools.decorator import tool
from fleet.tools.tool import ToolFailed

STOCK = {"bolt": 120, "nut": 80}


@tool(effect="reads", timeout=5, retries=2)
def stock(part: Annotated[str, "the part's name"]) -> int:
    """How many of a part are in stock."""
    if part not in STOCK:
        raise ToolFailed("unknown_part", f"there is no part {part}; there are: {', '.join(STOCK)}", FailureClass.MISUSE)
    return STOCK[part]


@tool(effect="writes")
def order(part: str, number: Annotated[int, "how many"], book: Path, ctx: ToolContext) -> str:
    """Order parts. The key of the call stands beside the order, so that the same call is never two orders."""
    line = f"{ctx.idempotency_key} {number} {part}\n"
    if not book.exists() or line not in book.read_text():
        with book.open("a") as file:
            file.write(line)
    return f"{number} {part} ordered"
