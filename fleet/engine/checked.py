"""What a plan that nobody compiled may get wrong: a program may hand in any."""

import re

from fleet.core.plan import Plan, Problem, Step

_ID = re.compile(r"[0-9]{1,9}|[A-Za-z_][A-Za-z0-9_-]{0,63}")
_LANE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def problems(plan: Plan) -> tuple[Problem, ...]:
    """Everything that would break the run's live state. None for a compiled plan."""
    found: list[Problem] = []
    seen: set[str] = set()
    for step in plan.steps:
        found += [Problem(code=code, message=message, step=step.id[:80]) for code, message in _wrong(step, seen)]
        seen.add(step.id)
    dangling = [hole.ref.step for hole in plan.answer_holes if hole.ref.step not in seen]
    found += [Problem(code="dangling_reference", message=f"the answer refers to step {each}") for each in dangling]
    return tuple(found)


def _wrong(step: Step, seen: set[str]) -> list[tuple[str, str]]:
    found = []
    if not _ID.fullmatch(step.id):
        found.append(("bad_id", "an id is a number, or a name of letters, digits, _ and -"))
    if step.id in seen:
        found.append(("duplicate_id", "the id is used twice"))
    if step.kind != "tool":
        found.append(("bad_kind", f"a plan holds tool steps only, not a {step.kind} step"))
    if not _LANE.fullmatch(step.lane):
        found.append(("bad_lane", f"{step.lane!r} is no lane: use letters, digits, _, . and -"))
    if early := [need for need in step.needs if need not in seen]:
        found.append(("unknown_need", f"it needs {', '.join(early[:5])}, which is no earlier step"))
    if loose := {hole.ref.step for hole in step.holes} - set(step.needs):
        found.append(("missing_need", f"it refers to {', '.join(sorted(loose)[:5])} and does not need it"))
    return found
