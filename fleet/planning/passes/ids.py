"""Line pass: an id is used once, and a step comes before the join."""

import re

from fleet.core.plan import Problem
from fleet.planning.lines import RawCall
from fleet.planning.scope import Scope

_ID = re.compile(r"[0-9]{1,9}|[A-Za-z_][A-Za-z0-9_-]{0,63}")


def check(raw: RawCall, scope: Scope, joined: bool) -> list[Problem]:
    """Problems with the line's id and place. joined: whether the plan's join has been seen."""
    found = []
    if not _ID.fullmatch(raw.id):
        say = f'"{raw.id[:80]}" is no id: use a number, or a name of letters, digits, _ and -'
        found.append(Problem(code="bad_id", message=say, step=raw.id[:80], line=raw.line))
    if raw.id in scope.seen:
        say = f"the id {raw.id} is used twice: give each step a number of its own"
        found.append(Problem(code="duplicate_id", message=say, step=raw.id, line=raw.line))
    if joined:
        say = "it comes after join(): move it before, join() is the last line"
        found.append(Problem(code="after_join", message=say, step=raw.id, line=raw.line))
    return found
