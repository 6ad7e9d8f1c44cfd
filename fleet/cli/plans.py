"""Commands about plan files: plan check."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli import options, out
from fleet.cli.options import AsJson, Parameters
from fleet.errors import PlanRejected

if TYPE_CHECKING:
    from fleet.core.plan import Plan

plan = typer.Typer(no_args_is_help=True, help="Plan files.")


def register(app: typer.Typer) -> None:
    app.add_typer(plan, name="plan")


@plan.command()
def check(
    file: Annotated[Path, typer.Argument(help="A YAML plan file.")],
    set_: Parameters = None,
    json: AsJson = False,
) -> None:
    """Compile a plan file without running it: its steps, or what is wrong with it (exit code 2)."""
    from fleet.cli.reading import read_plan
    from fleet.settings import load_settings

    try:
        found = read_plan(file, options.parameters(set_), load_settings()).plan
    except PlanRejected as rejected:
        if not json:
            raise
        out.document({"ok": False, "problems": [_problem(each) for each in rejected.problems]})
        raise typer.Exit(rejected.exit_code) from None
    depths = depths_of(found)
    if json:
        steps = [
            {"id": s.id, "tool": s.tool, "needs": s.needs, "effect": s.effect, "depth": depths[s.id]}
            for s in found.steps
        ]
        out.document({"ok": True, "steps": steps, "depth": max(depths.values(), default=0)})
        return
    for step in found.steps:
        needs = f"  after {', '.join(step.needs)}" if step.needs else ""
        out.data(f"{'  ' * (depths[step.id] - 1)}{step.id}  {step.tool} ({step.effect}){needs}")
    out.talk(f"the plan is sound: {len(found.steps)} steps, {max(depths.values(), default=0)} deep")


def depths_of(plan: "Plan") -> dict[str, int]:
    """How many steps run one after the other up to and with each step. Needs outside the plan count nothing."""
    depths: dict[str, int] = {}
    left = {step.id: [need for need in step.needs if need != step.id] for step in plan.steps}
    while left:
        free = [step for step, needs in left.items() if not any(need in left for need in needs)]
        if not free:  # a cycle; the compiler refuses it, and this must end all the same
            return depths | dict.fromkeys(left, 1)
        for step in free:
            depths[step] = 1 + max((depths.get(need, 0) for need in left[step]), default=0)
        left = {step: needs for step, needs in left.items() if step not in depths}
    return depths


def _problem(problem: object) -> Any:
    return {"message": problem} if isinstance(problem, str) else out.jsonable(problem)
