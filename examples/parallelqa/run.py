"""Runs ParallelQA as a batch on a fleet of its own, and prints what came of it beside what the data demand.

    python examples/parallelqa/run.py --set all --scale 0            # answers and calls, as fast as it goes
    python examples/parallelqa/run.py                                # speed-up over the recorded ReAct runs
    python examples/parallelqa/run.py --scale 0.3 --kill 3 --seed 1  # a process dies every three seconds

The exit code is 0 only if all that is demanded was found: every answer right, the calls those of the data, with
--scale 90% of the ideal speed-up; with --kill, instead of the speed, restarts and takeovers, and no call that was done
issued again.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import findings
from findings import Score
from kills import Kills
from pursue import SETS, Pursued, batch, pursue, settings_of, write_script
from rich.console import Console
from rich.table import Table
from timing import LEAST, Branch, accounts, branches

from fleet.client import Fleet
from fleet.embedded.fleet import EmbeddedFleet
from fleet.errors import FleetFault

BUSY = 32
"""Goals in flight at full length that keep a fleet as busy as it is by default, at whatever scale."""


@dataclass(kw_only=True)
class Report:
    """All that was found. demands: each, and whether it is met."""

    chosen: argparse.Namespace
    pursued: list[Pursued]
    seconds: float
    load: float
    kills: Counter[str]
    restarts: dict[str, int]
    witnessed: Counter[str]
    delays: dict[tuple[str, str], float]
    demands: dict[str, bool] = field(default_factory=dict)

    def of(self, which: str) -> list[Pursued]:
        return [run for run in self.pursued if run.goal.labels["set"] == which]

    @property
    def timed(self) -> bool:
        return bool(self.chosen.scale and not self.chosen.kill and self.of("golden"))

    def branches(self) -> list[Branch]:
        return branches(self.of("golden"), self.chosen.profile, self.chosen.scale) if self.timed else []


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _arguments(arguments)
    try:
        report = _run(chosen)
    except FleetFault as fault:
        sys.stderr.write(f"{fault}\n")
        return fault.exit_code
    _judge(report)
    if chosen.json:
        sys.stdout.write(json.dumps(_document(report), indent=2) + "\n")
    else:
        _print(report, Console(width=None if sys.stdout.isatty() else 110))
    return 0 if all(report.demands.values()) else 1


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run ParallelQA as a batch on a fleet of its own.")
    parser.add_argument("--set", choices=SETS, default="golden", help="which records")
    parser.add_argument(
        "--profile", choices=("paper_totals", "paper_parts"), default="paper_totals", help="model times"
    )
    parser.add_argument("--scale", type=float, default=0.5, help="factor on every recorded delay; 0: none")
    parser.add_argument("--workers", type=int, default=0, help="worker processes (2, or 4 with --kill)")
    parser.add_argument("--slots", type=int, default=32, help="steps that a worker runs at a time")
    parser.add_argument(
        "--in-flight", type=int, help=f"goals open at a time ({BUSY} * scale, {BUSY} with --kill); 0: all"
    )
    parser.add_argument("--kill", type=float, default=0.0, metavar="SECONDS", help="kill a process every so often")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of whom to kill")
    parser.add_argument("--losses", type=int, default=0, help="workers that a step may cost (3, or 10 with --kill)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    chosen = parser.parse_args(arguments)
    if chosen.in_flight is None:
        chosen.in_flight = BUSY if chosen.kill else round(BUSY * chosen.scale)
    chosen.workers = chosen.workers or (4 if chosen.kill else 2)
    chosen.losses = chosen.losses or (10 if chosen.kill else 3)  # by chance alone, a long call may lose three
    return chosen


def _run(chosen: argparse.Namespace) -> Report:
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        made = write_script(folder / "turns.jsonl", chosen.set, chosen.profile, chosen.scale)
        more: dict[str, object] = {"lease": 3.0, "heartbeat": 0.5} if chosen.kill else {}
        more |= {"losses": chosen.losses}
        settings = settings_of(folder / "fleet", folder / "turns.jsonl", chosen.workers, chosen.slots, **more)
        fleet = stack.enter_context(EmbeddedFleet(settings))
        fleet.wait_ready()
        client = stack.enter_context(Fleet.connect(fleet.settings))
        started = time.monotonic()
        kills = Kills(fleet, chosen.kill, chosen.seed) if chosen.kill else None
        with kills or ExitStack():
            pursued = pursue(fleet, client, batch(chosen.set, chosen.scale), chosen.in_flight)
        return Report(
            chosen=chosen,
            pursued=pursued,
            seconds=time.monotonic() - started,
            load=load,
            kills=kills.by if kills else Counter(),
            restarts=fleet.counts(),
            witnessed=findings.issues(folder / "fleet" / "logs"),
            delays={(turn.purpose, turn.goal): turn.delay_s for turn in made if not turn.contains},
        )


def _judge(report: Report) -> None:
    """Fills in which demands are met."""
    demands, killed = report.demands, bool(report.chosen.kill)
    for which in SETS[report.chosen.set]:
        found, wanted = findings.score(report.of(which)), findings.expected(which)
        demands[f"{which}: answers right, {wanted.right} of {wanted.goals}"] = found.right == wanted.right
        demands[f"{which}: calls are those of the data"] = found.calls == wanted.calls
        demands[f"{which}: joiner turns, {wanted.joins}"] = found.joins == wanted.joins
        if wanted.second:
            demands[f"{which}: calls in second plans, {wanted.second}"] = found.second == wanted.second
        if not killed:
            demands[f"{which}: every call was made once"] = found.attempts == wanted.attempts
    demands["no call that was done was issued again"] = not findings.done_again(report.pursued, report.witnessed)
    demands["the model's own count of its calls is the ledger's"] = _witness_agrees(report)
    if killed:
        demands["restarts > 0"] = sum(report.restarts.values()) > 0
        demands["takeovers > 0"] = findings.takeovers(report.pursued) > 0
    for each in report.branches():
        demands[f"branch {each.name}: {LEAST:.0%} of the ideal speed-up"] = each.part >= LEAST


def _witness_agrees(report: Report) -> bool:
    """Whether the model saw every call that is done. A log that nobody wrote would show no double either."""
    rows = [row for run in report.pursued for row in run.rows]
    return bool(rows) and all(report.witnessed[row.idempotency_key] > 0 for row in rows)


def _print(report: Report, console: Console) -> None:
    chosen = report.chosen
    flight = f"{chosen.in_flight} goals in flight" if chosen.in_flight else "all goals at once"
    if chosen.in_flight and chosen.scale not in (0.0, 1.0):
        flight += f" (as busy as {chosen.in_flight / chosen.scale:.0f} at full length)"
    console.print(
        f"ParallelQA, {chosen.profile}, scale {chosen.scale:g}: {len(report.pursued)} goals in {report.seconds:.1f} s, "
        f"{chosen.workers} workers of {chosen.slots} slots, {flight}; "
        f"{os.cpu_count()} cores, load {report.load:.1f} before it began"
    )
    _show(console, _answers(report))
    if report.timed:
        _show(console, _speed(report.branches()))
        _show(console, _where(report))
    if chosen.kill:
        _show(console, _killed(report))
        _show(console, _again(report))
    console.print()
    for run in findings.wrong(report.pursued):
        labels = run.goal.labels
        said = f"{run.end.status} ({run.end.reason}) {str(run.end.answer)[:60]!r} {run.end.detail[:200]}"
        console.print(f"wrong: {labels['set']} {labels['question']}: {said}", markup=False)
    for demand, met in report.demands.items():
        console.print(f"{'met   ' if met else 'NOT MET'} {demand}", markup=False)


def _answers(report: Report) -> Table:
    columns = ("", "right", *findings.TOOLS, "calls", "attempts", "second plans", "joiner turns")
    table = _table("Answers and calls", *columns)
    for which in SETS[report.chosen.set]:
        for name, each in (
            (f"{which}, data", findings.expected(which)),
            (f"{which}, fleet", findings.score(report.of(which))),
        ):
            table.add_row(name, *_row(each))
    return table


def _row(each: Score) -> list[str]:
    calls = (each.calls[tool] for tool in findings.TOOLS)
    return [f"{each.right} of {each.goals}", *map(str, (*calls, each.total, each.attempts, each.second, each.joins))]


def _speed(found: Sequence[Branch]) -> Table:
    table = _table(
        "Seconds of the record",
        "branch",
        "goals",
        "ReAct",
        "ideal",
        "measured",
        "speed-up",
        "ideal speed-up",
        "of the ideal",
    )
    for each in found:
        figures = (f"{x:.2f}" for x in (each.react, each.ideal, each.measured))
        factors = (f"{each.speedup:.2f}x", f"{each.react / each.ideal:.2f}x", f"{each.part:.1%}")
        table.add_row(each.name, str(each.goals), *figures, *factors)
    return table


def _where(report: Report) -> Table:
    table = _table("Where a goal's time goes, on its critical path", "account", "ms a goal (real)")
    spent = accounts(report.of("golden"), report.delays, report.chosen.scale)
    for name, value in sorted(spent.items(), key=lambda item: -item[1]):
        table.add_row(name, f"{value * 1000:.1f}")
    return table


def _killed(report: Report) -> Table:
    table = _table(
        f"Kills, one every {report.chosen.kill:g} s (seed {report.chosen.seed})", "process", "kills", "restarts"
    )
    for name, restarts in sorted(report.restarts.items()):
        table.add_row(name, str(report.kills[name]), str(restarts))
    table.add_row("all", str(report.kills.total()), str(sum(report.restarts.values())))
    return table


def _again(report: Report) -> Table:
    rows, done = findings.reissued(report.pursued), findings.done_again(report.pursued, report.witnessed)
    title = (
        f"{findings.takeovers(report.pursued)} takeovers; done and issued again: {len(done)}; "
        f"open at a kill and issued again: {len(rows)}"
    )
    table = _table(title, "question", "call", "purpose", "tries", "again")
    named = {run.run_id: run.goal.labels["question"] for run in report.pursued}
    for row in rows:
        purpose = "joiner" if row.key.step.startswith("join.") else "planner"
        table.add_row(
            named[row.key.run], f"{row.key.step}:{row.key.ordinal}", purpose, str(row.attempts), str(row.reissues)
        )
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=None, pad_edge=False, show_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table


def _show(console: Console, table: Table) -> None:
    """The title on a line of its own: rich would fold it to the table's width."""
    title, table.title = table.title, None
    console.print(f"\n{title}", highlight=False)
    console.print(table)


def _document(report: Report) -> dict[str, Any]:
    rows = findings.reissued(report.pursued)
    return {
        **{name: getattr(report.chosen, name) for name in ("set", "profile", "scale", "workers", "slots", "in_flight")},
        "seconds": round(report.seconds, 2),
        "sets": {which: _plain(findings.score(report.of(which))) for which in SETS[report.chosen.set]},
        "branches": [vars(each) | {"speedup": each.speedup, "of_ideal": each.part} for each in report.branches()],
        "accounts": accounts(report.of("golden"), report.delays, report.chosen.scale) if report.timed else {},
        "kills": dict(report.kills),
        "restarts": report.restarts,
        "takeovers": findings.takeovers(report.pursued),
        "reissued": [{"run": row.key.run, "step": row.key.step, "again": row.reissues} for row in rows],
        "done_again": len(findings.done_again(report.pursued, report.witnessed)),
        "demands": report.demands,
    }


def _plain(each: Score) -> dict[str, Any]:
    return vars(each) | {"calls": dict(each.calls)}


if __name__ == "__main__":
    sys.exit(main())
