"""Line pass: every step that a line refers to, or names as a need, exists and comes earlier."""

from collections.abc import Iterable

from fleet.core.ids import StepId
from fleet.core.plan import Problem, Quorum
from fleet.planning.lines import RawCall
from fleet.planning.scope import Scope


def check(raw: RawCall, needs: Iterable[StepId], scope: Scope) -> list[Problem]:
    """Problems with the steps that a line waits for."""
    wanted = list(needs)
    found = [_missing(raw, need, scope) for need in wanted if need == raw.id or need not in scope]
    if isinstance(raw.join, Quorum) and raw.join.k > len(wanted):
        say = f"a quorum of {raw.join.k} can't be reached: it waits for {len(wanted)} steps"
        found.append(Problem(code="bad_quorum", message=say, step=raw.id, line=raw.line))
    return found


def _missing(raw: RawCall, need: StepId, scope: Scope) -> Problem:
    if need == raw.id:
        code, say = "self_reference", "it refers to itself: refer to an earlier step"
    elif need.isdigit() and raw.id.isdigit() and int(need) > int(raw.id):
        code, say = "forward_reference", f"it refers to step {need}, which is not before it: put step {need} first"
    else:
        known = [*scope.known, *sorted(scope.seen - {raw.id}, key=_order)]
        may = ", ".join(known[-30:]) or "none yet"
        code = "dangling_reference"
        say = f"there is no step {need} to refer to (there are: {may}); write \\${need} if a plain dollar is meant"
    return Problem(code=code, message=say, step=raw.id, line=raw.line)


def _order(step: StepId) -> tuple[int, str]:
    return (int(step), "") if step.isdigit() else (0, step)
