"""Commands about dead letters, the steps that took their workers down: dead list, dead show, dead replay."""

import functools
import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from fleet.cli import out
from fleet.cli.goals import producer, settings_of
from fleet.cli.options import AsJson, Data
from fleet.errors import BadInput, FleetFault

if TYPE_CHECKING:
    from fleet.engine.dead import DeadStep
    from fleet.store.sql.dead import DeadLetter, Wanted

dead = typer.Typer(no_args_is_help=True, help="Steps that took their workers down.")
LISTED = 100
_AGO = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

SINCE = "Died since then: 90m, 2h or 7d ago, or 2026-11-30T12:00."
FILTERS: dict[str, Any] = {
    "tool": Annotated[str | None, typer.Option("--tool", help="Of this tool.")],
    "goal": Annotated[str | None, typer.Option("--goal", metavar="GOAL", help="Of this goal.")],
    "tenant": Annotated[str | None, typer.Option("--tenant", help="Of this tenant.")],
    "since": Annotated[str | None, typer.Option("--since", metavar="TIME", help=SINCE)],
    "cause": Annotated[str | None, typer.Option("--cause", metavar="TEXT", help="With this text in the cause.")],
    "limit": Annotated[int | None, typer.Option("--limit", min=1, help="How many at most.")],
}
LetterArgument = Annotated[str, typer.Argument(metavar="ID", help="The letter's id, as `fleet dead list` prints it.")]


class Chosen(NamedTuple):
    """What a command's filters say. given: whether any was; all: `--all`."""

    wanted: "Wanted"
    limit: int | None
    all: bool
    given: bool


def register(app: typer.Typer) -> None:
    app.add_typer(dead, name="dead")


def filtered(all_help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of FILTERS and `--all`; it takes what they say as its argument `chosen`."""

    def dress(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def dressed(**given: Any) -> None:
            all_, filters = given.pop("all_"), {name: given.pop(name) for name in FILTERS}
            command(chosen=_chosen(filters, all_), **given)

        options = {**FILTERS, "all_": Annotated[bool, typer.Option("--all", help=all_help)]}
        own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "chosen"]
        more = [
            inspect.Parameter(name, _NAMED, annotation=kind, default=_DEFAULTS.get(name))
            for name, kind in options.items()
        ]
        parameters = [p.replace(kind=_NAMED) for p in own] + more
        vars(dressed)["__signature__"] = inspect.Signature(parameters)
        dressed.__annotations__ = {p.name: p.annotation for p in parameters}
        return dressed

    return dress


_NAMED = inspect.Parameter.KEYWORD_ONLY
_DEFAULTS = {"all_": False}


@dead.command("list")
@filtered("Also those that were replayed.")
def list_(chosen: Chosen, data: Data = None, json: AsJson = False) -> None:
    """Dead letters: id, when it died, tool, workers lost, cause."""
    limit = chosen.limit or LISTED
    with producer(settings_of(data)) as fleet:
        found = fleet.dead.list(chosen.wanted, replayed=chosen.all, limit=limit + 1)
    if json:
        out.document(found[:limit])
    for letter in () if json else found[:limit]:
        out.data(_line(letter))
    if not found:
        out.talk("no dead letter fits")
    if len(found) > limit:
        out.talk(f"there are more than {limit}: raise --limit to see them")


@dead.command()
def show(letter: LetterArgument, data: Data = None, json: AsJson = False) -> None:
    """A dead letter: what was called, with what, which workers it took, and what waits for it."""
    with producer(settings_of(data)) as fleet:
        found = fleet.dead.show(letter)
    out.document(found) if json else _tell(found)


@dead.command()
@filtered("All of them.")
def replay(
    chosen: Chosen,
    letters: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Letters, by their ids.")] = None,
    redo_writes: Annotated[
        bool, typer.Option("--redo-writes", help="Also where a step that changed the world would do so again.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be replayed.")] = False,
    data: Data = None,
    json: AsJson = False,
) -> None:
    """Do dead steps again, and what depends on them, in a further run of their goal. Prints the runs."""
    if bool(letters) == (chosen.all or chosen.given):
        raise BadInput("say one of both: the ids of letters, or --all or a filter")
    with producer(settings_of(data)) as fleet:
        ids = letters or [letter.id for letter in fleet.dead.list(chosen.wanted, limit=chosen.limit)]
        answers = fleet.dead.replay(ids, redo_writes=redo_writes, dry=dry_run)
    _tell_replays(ids, answers, json=json, dry=dry_run)


def moment(text: str, now: datetime) -> datetime:
    """A time, or how long ago: `90m`, `2h`, `7d`. Without a zone it is this machine's. Raises BadInput."""
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago:
            return now - timedelta(**{_UNITS[ago[2]]: float(ago[1])})
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"--since {text!r} is no time: write 90m, 2h, 7d, or 2026-11-30T12:00") from None


def _chosen(filters: dict[str, Any], all_: bool) -> Chosen:
    given = any(value is not None for value in filters.values())
    limit, since = filters.pop("limit"), filters.pop("since")
    when = moment(since, datetime.now(UTC)) if since is not None else None
    from fleet.store.sql.dead import Wanted

    return Chosen(Wanted.model_validate({**filters, "since": when}), limit, all_, given)


def _line(letter: "DeadLetter") -> str:
    replayed = f"  (replayed as {letter.replay})" if letter.replay else ""
    died = letter.died.isoformat(timespec="seconds")
    return f"{letter.id}  {died}  {letter.tool or '-'}  {letter.losses} lost  {letter.cause}{replayed}"


def _tell(found: "DeadStep") -> None:
    letter = found.letter
    out.data(_line(letter))
    out.data(f"  goal      {letter.goal_id}  {found.status}  {found.objective}")
    out.data(f"  call      {found.call}")
    if found.step is not None and found.step.note:
        out.data(f"  note      {found.step.note}")
    for loss in found.lost:
        out.data(f"  lost      {datetime.fromtimestamp(loss.at, UTC).isoformat(timespec='seconds')}  {loss.worker}")
    out.data(f"  lost      {letter.died.isoformat(timespec='seconds')}  {letter.worker}")
    if found.depending:
        out.data(f"  depending {', '.join(found.depending)}")
    if not letter.replay:
        out.talk(f"once it is mended: fleet dead replay {letter.id}")


def _tell_replays(ids: list[str], answers: list[Any], *, json: bool, dry: bool) -> None:
    """Prints what became of each letter, in order; the worst refusal is the exit code."""
    faults = [answer for answer in answers if isinstance(answer, FleetFault)]
    if json:
        both = zip(ids, answers, strict=True)
        out.document(
            [{"id": i, "error": str(a), "exit_code": a.exit_code} if a in faults else out.jsonable(a) for i, a in both]
        )
    for answer in answers:
        if isinstance(answer, FleetFault):
            out.talk(f"fleet: {answer}")
        elif not json:
            out.data(f"{answer.id}  {'would be replayed' if dry else answer.run_id}")
    if not ids:
        out.talk("no dead letter fits: nothing is replayed")
    if faults:
        raise typer.Exit(max(fault.exit_code for fault in faults))
