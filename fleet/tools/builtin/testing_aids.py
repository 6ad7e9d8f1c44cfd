"""noop and sleep: tools for tests and benchmarks, registered only where FLEET_TOOLS lists this module."""

import threading
import time
from typing import Annotated

from pydantic import Field

from fleet.core.value import Json
from fleet.tools.context import ToolContext
from fleet.tools.decorator import tool
from fleet.tools.tool import ToolFailed

GLANCE = 0.05


@tool(effect="pure", seconds=0.0002)
def noop(value: Json = None) -> Json:
    """Give back the argument."""
    return value


@tool(effect="pure", seconds=1.0, timeout=3600)
def sleep(seconds: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)], ctx: ToolContext) -> float:
    """Wait for so many seconds, and give back how many; stop when the step is cancelled.

    Raises ToolFailed: cancelled.
    """
    never = threading.Event()
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if ctx.cancelled:
            raise ToolFailed("cancelled", "sleep was cancelled")
        never.wait(min(left, GLANCE))
    return seconds
