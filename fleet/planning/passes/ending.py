"""Plan pass: there is at least one step, and join() ends the plan."""

from fleet.core.plan import Problem


def check(lines: int, joins: int) -> list[Problem]:
    """lines: calls in the plan, refused ones included. joins: how many join lines it has."""
    found = []
    if not lines:
        say = 'the plan has no step: write at least one call, such as 1. tool("argument"), before join()'
        found.append(Problem(code="empty_plan", message=say))
    if not joins:
        say = "the plan does not end in join(): write join() as its last line, so that it is known to be complete"
        found.append(Problem(code="missing_join", message=say))
    if joins > 1:
        found.append(Problem(code="join_twice", message=f"the plan has {joins} join() lines: write one, at the end"))
    return found
