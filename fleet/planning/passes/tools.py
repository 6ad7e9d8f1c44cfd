"""Line pass: the tool exists, and the goal may use it."""

import difflib

from fleet.core.plan import Problem
from fleet.planning.lines import RawCall
from fleet.planning.scope import Scope


def check(raw: RawCall, scope: Scope) -> list[Problem]:
    """A problem that lists the tools and names the nearest one, where the line's tool is not among them."""
    allowed = scope.allowed()
    if raw.tool in allowed:
        return []
    near = difflib.get_close_matches(raw.tool, list(allowed), n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    names = ", ".join(sorted(allowed)) or "none"
    if raw.tool in scope.specs:
        code, say = "tool_not_allowed", f"this goal may not use the tool {raw.tool}. It may use: {names}."
    else:
        code, say = "unknown_tool", f"there is no tool {raw.tool[:80]}.{hint} The tools are: {names}."
    return [Problem(code=code, message=say, step=raw.id, line=raw.line)]
