"""How a run looks to a person: what its events add up to, as a live table or as plain lines."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fleet.cli.out import printable

if TYPE_CHECKING:
    from rich.table import Table

    from fleet.core.events import Event

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


@dataclass(frozen=True, kw_only=True, slots=True)
class StepView:
    """One line of the table. since: when it started, seconds since 1970. seconds: how long it took, once it ended."""

    tool: str = ""
    call: str = ""
    needs: tuple[str, ...] = ()
    state: str = "waiting"
    since: float | None = None
    seconds: float | None = None
    note: str = ""

    def elapsed(self, now: float) -> str:
        if self.seconds is not None:
            return f"{self.seconds:.1f} s"
        return f"{max(0.0, now - self.since):.1f} s" if self.since is not None and self.state == "running" else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunView:
    """A run as its events tell it. steps: in the order of their first mention. ended: a status word, or empty."""

    steps: Mapping[str, StepView] = field(default_factory=dict)
    versions: int = 0
    question: str = ""
    ended: str = ""

    def hear(self, event: "Event") -> "RunView":
        """The view after one more event. Events that it does not know change nothing."""
        take = _HEARD.get(event.type.value)
        return take(self, event) if take else self

    def with_step(self, name: str, **changes: Any) -> "RunView":
        step = replace(self.steps.get(name, StepView()), **changes)
        return replace(self, steps={**self.steps, name: step})


def _added(view: RunView, event: "Event") -> RunView:
    needs = tuple(map(str, event.data.get("needs") or ()))
    return view.with_step(event.step, tool=_text(event, "tool"), call=_text(event, "call"), needs=needs)


def _started(view: RunView, event: "Event") -> RunView:
    attempt = int(event.data.get("attempt") or 1)
    note = f"attempt {attempt}" if attempt > 1 else ""
    return view.with_step(event.step, state="running", since=event.at, seconds=None, note=note)


def _parked(view: RunView, event: "Event") -> RunView:
    return view.with_step(event.step, state="parked", note=_text(event, "reason"))


def _lost(view: RunView, event: "Event") -> RunView:
    return view.with_step(event.step, state="waiting", since=None, note="its worker was lost")


def _step_ended(view: RunView, event: "Event") -> RunView:
    note = ": ".join(part for part in (_text(event, "type"), _text(event, "message")) if part)
    seconds = float(event.data.get("seconds") or 0.0)
    return view.with_step(event.step, state=_text(event, "status"), seconds=seconds, note=note)


def _planned(view: RunView, event: "Event") -> RunView:
    return replace(view, versions=int(event.data.get("version") or view.versions + 1))


def _asked(view: RunView, event: "Event") -> RunView:
    return replace(view, question=_text(event, "question"))


def _answered(view: RunView, event: "Event") -> RunView:
    return replace(view, question="")


def _ended(view: RunView, event: "Event") -> RunView:
    return replace(view, ended=_text(event, "status"), question="")


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


def table_of(view: RunView, now: float, rows: int = 30) -> "Table":
    """The run as a table; of more than `rows` steps, those that move come first. now: seconds since 1970."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_edge=False, caption=summary(view), caption_justify="left")
    for title, width in (("step", 6), ("call", 8), ("needs", 5), ("state", 9), ("time", 7), ("note", 8)):
        table.add_column(title, overflow="ellipsis", no_wrap=True, min_width=width)
    for name, step in _worth_showing(view, rows):
        state = Text(step.state, style=STYLES.get(step.state, ""))
        needs, call = " ".join(step.needs), step.call or step.tool
        table.add_row(Text(name), Text(call), Text(needs), state, Text(step.elapsed(now)), Text(step.note))
    return table


def summary(view: RunView) -> str:
    """The run in one line: how many steps are in which state."""
    counts: dict[str, int] = {}
    for step in view.steps.values():
        counts[step.state] = counts.get(step.state, 0) + 1
    told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    parts = [f"plan {view.versions}" if view.versions else "planning", told]
    parts += [f"asks: {view.question}"] if view.question else []
    parts += [view.ended] if view.ended else []
    return "; ".join(part for part in parts if part)


def _worth_showing(view: RunView, rows: int) -> list[tuple[str, StepView]]:
    steps = list(view.steps.items())
    if len(steps) <= rows:
        return steps
    order = {"running": 0, "parked": 1, "failed": 2, "lost": 2, "waiting": 3}
    chosen = sorted(range(len(steps)), key=lambda at: (order.get(steps[at][1].state, 4), at))[:rows]
    return [steps[at] for at in sorted(chosen)]


def _text(event: "Event", name: str) -> str:
    value = event.data.get(name)
    return "" if value is None else printable(str(value)).replace("\n", " ")


def _short(value: object) -> str:
    text = printable(f"{value:.3g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)).replace("\n", " ")
    return text if len(text) <= 160 else text[:157] + "..."
