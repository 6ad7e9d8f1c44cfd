"""How a run looks to a person: what its events add up to, as a live table or as plain lines."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fleet.cli.out import printable
from fleet.core.ids import JOIN, PLAN

if TYPE_CHECKING:
    from rich.table import Table

    from fleet.core.events import Event

COLUMNS = (("step", 6), ("call", 8), ("needs", 5), ("worker", 6), ("state", 9), ("time", 6), ("note", 8))
"""Title and least width of each column."""
SPARED = ("needs", "note")
"""Columns that are left out where they would be empty."""
NOTE_WIDTH = 16
"""Characters of the longest note that takes no room from the calls."""
STYLES = {
    "succeeded": "green",
    "failed": "red",
    "lost": "red",
    "cancelled": "yellow",
    "skipped": "dim",
    "running": "cyan",
    "parked": "yellow",
    "waiting": "dim",
}
_ROLES = {"plan": "planner", "join": "joiner"}


@dataclass(frozen=True, kw_only=True, slots=True)
class StepView:
    """One line of the table. since: when it started, seconds since 1970. seconds: how long it took, once it ended."""

    tool: str = ""
    call: str = ""
    needs: tuple[str, ...] = ()
    state: str = "waiting"
    worker: str = ""
    since: float | None = None
    seconds: float | None = None
    note: str = ""

    def elapsed(self, now: float) -> str:
        if self.seconds is not None:
            return f"{self.seconds:.1f} s"
        return f"{max(0.0, now - self.since):.1f} s" if self.since is not None and self.state == "running" else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunView:
    """A run as its events tell it. steps: in the order of their first mention. ended: a status word, or empty.

    began: when its first event was, seconds since 1970. took: seconds from there to its end, once it has ended.
    remarks: what to say of every step of a kind (plan, join) that has nothing else to say.
    """

    steps: Mapping[str, StepView] = field(default_factory=dict)
    began: float | None = None
    versions: int = 0
    question: str = ""
    ended: str = ""
    took: float | None = None
    remarks: Mapping[str, str] = field(default_factory=dict)

    def hear(self, event: "Event") -> "RunView":
        """The view after one more event. Events that it does not know change nothing."""
        begun = self if self.began is not None else replace(self, began=event.at)
        take = _HEARD.get(event.type.value)
        return take(begun, event) if take else begun

    def with_step(self, name: str, **changes: Any) -> "RunView":
        step = replace(self.steps.get(name, StepView()), **changes)
        return replace(self, steps={**self.steps, name: step})

    def is_of_engine(self, name: str) -> bool:
        """Whether a step is the planner's or the joiner's, and not one of a plan."""
        return name.partition(".")[0] in _ROLES

    def who(self, name: str) -> str:
        """What a step is: the planner, the joiner, or a tool."""
        known = self.steps.get(name, StepView()).tool
        return _ROLES.get(name.partition(".")[0]) or known or "step"

    def remark(self, name: str) -> str:
        """What there is to say of a step beside its state."""
        note = self.steps[name].note if name in self.steps else ""
        return note or self.remarks.get(name.partition(".")[0], "")


def _added(view: RunView, event: "Event") -> RunView:
    needs = tuple(map(str, event.data.get("needs") or ()))
    return view.with_step(event.step, tool=_text(event, "tool"), call=_text(event, "call"), needs=needs)


def _started(view: RunView, event: "Event") -> RunView:
    attempt = int(event.data.get("attempt") or 1)
    note = f"attempt {attempt}" if attempt > 1 else ""
    worker = _text(event, "worker").partition("@")[0].partition(".")[0]
    return view.with_step(event.step, state="running", worker=worker, since=event.at, seconds=None, note=note)


def _parked(view: RunView, event: "Event") -> RunView:
    return view.with_step(event.step, state="parked", note=_text(event, "reason"))


def _lost(view: RunView, event: "Event") -> RunView:
    return view.with_step(event.step, state="waiting", since=None, note="its worker was lost")


def _step_ended(view: RunView, event: "Event") -> RunView:
    note = ": ".join(part for part in (_text(event, "type"), _text(event, "message")) if part)
    state = _text(event, "status")
    return view.with_step(event.step, state=state, seconds=_seconds(view, event), note=note or _again(view, event))


def _seconds(view: RunView, event: "Event") -> float:
    """How long the step took: as its worker measured it, else from its start to its end."""
    since = view.steps.get(event.step, StepView()).since
    return float(event.data.get("seconds") or (max(0.0, event.at - since) if since is not None else 0.0))


def _again(view: RunView, event: "Event") -> str:
    """What a step that was tried again keeps to say once it has ended."""
    note = view.steps.get(event.step, StepView()).note
    return note if note.startswith("attempt") else ""


def _planned(view: RunView, event: "Event") -> RunView:
    return replace(view, versions=int(event.data.get("version") or view.versions + 1))


def _asked(view: RunView, event: "Event") -> RunView:
    return replace(view, question=_text(event, "question"))


def _answered(view: RunView, event: "Event") -> RunView:
    return replace(view, question="")


def _ended(view: RunView, event: "Event") -> RunView:
    took = event.at - view.began if view.began is not None else 0.0
    return replace(view, ended=_text(event, "status"), question="", took=took)


_HEARD = {
    "step.added": _added,
    "step.started": _started,
    "step.parked": _parked,
    "step.lost": _lost,
    "step.ended": _step_ended,
    "plan.completed": _planned,
    "run.asked": _asked,
    "run.answered": _answered,
    "run.ended": _ended,
}


def line_of(event: "Event") -> str:
    """One event as one plain line, with its time of day."""
    clock = time.strftime("%H:%M:%S", time.localtime(event.at))
    told = {name: value for name, value in event.data.items() if value not in (None, "", [], ())}
    words = " ".join(f"{name}={_short(value)}" for name, value in told.items())
    return " ".join(part for part in (clock, event.type.value, event.step, words) if part)


def table_of(view: RunView, now: float, most: int = 30) -> "Table":
    """The run as a table; of more than `most` steps, those that move come first. now: seconds since 1970."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_edge=False, expand=True, caption=summary(view), caption_justify="left")
    shown = _worth_showing(view, most)
    wide = {"call": 3}
    if max((len(view.remark(name)) for name, _ in shown), default=0) > NOTE_WIDTH:
        wide["note"] = 2
    rows = [_row(view, name, step, now) for name, step in shown]
    used = [at for at, (title, _) in enumerate(COLUMNS) if title not in SPARED or any(row[at] for row in rows)]
    for title, width in (COLUMNS[at] for at in used):
        table.add_column(title, overflow="ellipsis", no_wrap=True, min_width=width, ratio=wide.get(title))
    for row in rows:
        styles = ("", "", "", "", STYLES.get(row[4], ""), "", "")
        table.add_row(*(Text(row[at], style=styles[at]) for at in used))
    return table


def _row(view: RunView, name: str, step: StepView, now: float) -> tuple[str, ...]:
    """One text a column."""
    call = view.who(name) if view.is_of_engine(name) else step.call or step.tool
    return name, call, " ".join(step.needs), step.worker, step.state, step.elapsed(now), view.remark(name)


def summary(view: RunView) -> str:
    """The run in one line: how many steps are in which state."""
    counts: dict[str, int] = {}
    for step in view.steps.values():
        counts[step.state] = counts.get(step.state, 0) + 1
    told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    planning = "planning" if not view.steps or any(name.startswith(PLAN) for name in view.steps) else ""
    parts = [f"plan {view.versions}" if view.versions else planning, told]
    parts += [f"asks: {view.question}"] if view.question else []
    parts += [f"ended: {view.ended}"] if view.ended else []
    return "; ".join(part for part in parts if part)


def _worth_showing(view: RunView, rows: int) -> list[tuple[str, StepView]]:
    steps = _in_order(view)
    if len(steps) <= rows:
        return steps
    order = {"running": 0, "parked": 1, "failed": 2, "lost": 2, "waiting": 3}
    chosen = sorted(range(len(steps)), key=lambda at: (order.get(steps[at][1].state, 4), at))[:rows]
    return [steps[at] for at in sorted(chosen)]


def _in_order(view: RunView) -> list[tuple[str, StepView]]:
    """The steps with each joiner behind those that it waits for, though it was known before them."""
    ordered: list[tuple[str, StepView]] = []
    joiners: list[tuple[str, StepView]] = []
    for name, step in view.steps.items():
        if name.startswith(PLAN):
            ordered += joiners
            joiners = []
        (joiners if name.startswith(JOIN) else ordered).append((name, step))
    return ordered + joiners


def _text(event: "Event", name: str) -> str:
    value = event.data.get(name)
    return "" if value is None else printable(str(value)).replace("\n", " ")


def _short(value: object) -> str:
    text = printable(f"{value:.3g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)).replace("\n", " ")
    return text if len(text) <= 160 else text[:157] + "..."
