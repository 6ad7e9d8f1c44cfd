"""What a person hands in: words, a plan file or a file of goals, as goals and plans."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.errors import BadInput

if TYPE_CHECKING:
    from pydantic import ValidationError

    from fleet.core.goal import Goal
    from fleet.core.plan import Plan
    from fleet.planning.documents import PlanDocument
    from fleet.settings import Settings

PLAN_FILES = (".yaml", ".yml")


def read_goal(
    what: str, fields: Mapping[str, Any], parameters: Mapping[str, Any], settings: "Settings"
) -> "tuple[Goal, Plan | None]":
    """A goal in words, or the plan file of that name. Raises BadInput, PlanRejected."""
    if not what.endswith(PLAN_FILES):
        if parameters:
            raise BadInput("--set is for plan files: a goal in words has no parameters")
        return make_goal({"objective": what, **fields}), None
    document = read_plan(Path(what), parameters, settings)
    return make_goal(_merged(document.goal.model_dump(exclude_unset=True), fields)), document.plan


def read_plan(path: Path, parameters: Mapping[str, Any], settings: "Settings") -> "PlanDocument":
    """The compiled plan file, with its goal. Raises BadInput where it can't be read, PlanRejected where it is wrong."""
    text = _text(path)
    from fleet.planning.documents import load_plan
    from fleet.tools.registry import Registry

    specs = {spec.name: spec for spec in Registry.configured(settings).specs()}
    return load_plan(text, specs, parameters, str(path))


def read_goals(path: Path) -> "list[Goal]":
    """A file of goals: one line, one JSON object of a goal's fields, or its words. Raises BadInput with the line."""
    import json

    goals = []
    for number, written in enumerate(_text(path).splitlines(), start=1):
        if not written.strip():
            continue
        try:
            entry = json.loads(written)
        except ValueError as refused:
            raise BadInput(f"{path} line {number} is not JSON: {refused}") from None
        goals.append(make_goal({"objective": entry} if isinstance(entry, str) else entry, f"{path} line {number}: "))
    if not goals:
        raise BadInput(f"{path} has no goal in it: write one JSON object a line")
    return goals


def make_goal(entry: object, where: str = "") -> "Goal":
    """Raises BadInput, which names the fields that are wrong."""
    from pydantic import ValidationError

    from fleet.core.goal import Goal

    try:
        return Goal.model_validate(entry)
    except ValidationError as refused:
        raise BadInput(f"{where}{_problems(refused)}") from None


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both, where `over` wins, and tables within are merged alike."""
    both = {**under, **over}
    for name in under.keys() & over.keys():
        if isinstance(under[name], Mapping) and isinstance(over[name], Mapping):
            both[name] = _merged(under[name], over[name])
    return both


def _problems(refused: "ValidationError") -> str:
    problems = []
    for error in refused.errors(include_url=False):
        at = ".".join(map(str, error["loc"])) or "the goal"
        problems.append(f"{at}: {error['msg'].removeprefix('Value error, ')}")
    return "; ".join(problems)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as refused:
        raise BadInput(f"{path} can't be read: {getattr(refused, 'strerror', None) or refused}") from None
