"""Sends ParallelQA through a fleet as a batch, and reads back from the fleet's own record what each run came to."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from turns import goals, turns

from fleet.client import Fleet
from fleet.core.events import Event
from fleet.core.goal import Goal
from fleet.core.plan import Plan
from fleet.core.run import End
from fleet.embedded.fleet import EmbeddedFleet
from fleet.engine.submit import Handle
from fleet.errors import FleetFault, TimedOut
from fleet.llm.turns import Turn, write_turns
from fleet.settings import Settings
from fleet.store.sql.ledger import CallRow
from fleet.store.sql.record import Record

TOOLS = Path(__file__).with_name("tools.py")
SETS = {"golden": ("golden",), "replan": ("replan",), "all": ("golden", "replan")}
LOOK = 0.05
"""Seconds between looks at how many goals are open."""


@dataclass(frozen=True, kw_only=True)
class Pursued:
    """A goal that has ended. plans: all versions; events: all of the run, in order; rows: its ledger."""

    goal: Goal
    run_id: str
    end: End
    plans: tuple[Plan, ...]
    events: tuple[Event, ...]
    rows: tuple[CallRow, ...]


def batch(which: str, scale: float, only: Sequence[str] = ()) -> list[Goal]:
    """The goals of `golden`, `replan` or `all`. scale: factor on the recorded latency of the tools."""
    return [goal for name in SETS[which] for goal in goals(name, scale=scale, only=only, **_fields(name))]


def write_script(path: Path, which: str, profile: str, scale: float) -> list[Turn]:
    """Write the turns that the scripted model answers with."""
    made = [_marked(name, turn) for name in SETS[which] for turn in turns(name, profile=profile, scale=scale)]
    write_turns(path, made)
    return made


def settings_of(folder: Path, script: Path, workers: int, slots: int, **more: object) -> Settings:
    """An embedded fleet in a folder, with the four tools and no others."""
    base = {"data": folder, "model_script": script, "tools": str(TOOLS), "builtins": False, "flower": False}
    return Settings(**(base | {"workers": workers, "slots": slots} | more))  # type: ignore[arg-type]


def pursue(
    fleet: EmbeddedFleet, client: Fleet, batch: Sequence[Goal], in_flight: int = 0, timeout: float = 600.0
) -> list[Pursued]:
    """Submit all goals, `in_flight` open at a time (0: all at once), and wait for the last. Raises TimedOut."""
    with closing(Record.open(fleet.settings.record_url)) as record:
        handles = _submitted(client, record, batch, in_flight or len(batch), time.monotonic() + timeout)
        return [_read(client, record, goal, handle) for goal, handle in zip(batch, handles, strict=True)]


def _submitted(client: Fleet, record: Record, batch: Sequence[Goal], in_flight: int, until: float) -> list[Handle]:
    handles: list[Handle] = []
    while len(handles) < len(batch) or record.goals.count_open("default"):
        room = in_flight - record.goals.count_open("default")
        if room > 0 and len(handles) < len(batch):
            handles += _accepted(client, batch[len(handles) : len(handles) + room])
        if time.monotonic() > until:
            raise TimedOut(f"{record.goals.count_open('default')} of {len(batch)} goals have not ended")
        time.sleep(LOOK)
    return handles


def _accepted(client: Fleet, batch: Sequence[Goal]) -> Iterator[Handle]:
    for answer in client.submit_many([(goal, None) for goal in batch]):
        if isinstance(answer, FleetFault):
            raise answer
        yield answer


def _read(client: Fleet, record: Record, goal: Goal, handle: Handle) -> Pursued:
    events = tuple(client.watch(handle.goal_id, timeout=60.0))
    return Pursued(
        goal=goal,
        run_id=handle.run_id,
        end=client.result(handle.goal_id, 60.0),
        plans=record.plans.all(handle.run_id),  # type: ignore[arg-type]
        events=events,
        rows=tuple(record.ledger.rows(handle.run_id)),  # type: ignore[arg-type]
    )


def _fields(name: str) -> dict[str, object]:
    """The replan records ask questions of the golden ones: what their goals are given tells them apart."""
    return {"inputs": {"record": "replan"}} if name == "replan" else {}


def _marked(name: str, turn: Turn) -> Turn:
    return (
        turn.model_copy(update={"contains": (*turn.contains, 'Input record: "replan"')}) if name == "replan" else turn
    )
