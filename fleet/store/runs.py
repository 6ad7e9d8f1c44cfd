"""A run's live state: opened, grown, read, cancelled, ended, rebuilt."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import redis

from fleet.core.events import EventType
from fleet.core.ids import StepId
from fleet.core.outcome import Outcome
from fleet.core.plan import Step
from fleet.core.run import End, RunContext
from fleet.errors import FleetFault
from fleet.store import clock, shapes
from fleet.store.keys import Keys
from fleet.store.scripts import EpochLost, Scripts, guarded
from fleet.store.shapes import LiveStep, Wake
from fleet.store.steps import MOST_WAKES, end_data

PAGE = 500
FIELDS = ("status", "context", "order", "tenant", "left", "join", "opened", "ended", "why", "tried")
"""A run's own fields; in Redis each begins with a colon, so that none is a step's."""
_OTHER = re.compile("[:/]")
"""In the name of every field that is not a step's record."""
SETTLED = 100
"""Steps whose specs or outcomes one script or read takes."""


class RunClosed(FleetFault):
    """The run takes no more steps: it has ended, or is being cancelled."""


def order(priority: int, submitted: float) -> float:
    """The base of the order of claims: lower is earlier. submitted: seconds since 1970."""
    return (9 - priority) * 1e13 + round(submitted * 1000)


class Runs:
    """Live runs. Whatever touches more than one page of steps goes by chunks."""

    def __init__(self, client: "redis.Redis", scripts: Scripts, keys: Keys) -> None:
        self._client = client
        self._scripts = scripts
        self._keys = keys

    def open(
        self,
        context: RunContext,
        order: float,
        *,
        deadline: float | None = None,
        event: EventType = EventType.ACCEPTED,
    ) -> bool:
        """Open a run; False when it was open already. deadline: seconds since 1970."""
        due = "" if deadline is None else round(deadline * 1000)
        about = context.model_dump_json(exclude_defaults=True)
        reply = self._scripts.call("open", context.run, about, order, context.tenant, event, due)
        return bool(reply[0] == "OPENED")

    def add(self, run: str, steps: Sequence[Step], paths: Mapping[StepId, float] | None = None) -> list[Wake]:
        """Add steps (needs before those that need them, or in the same call). Adding again changes nothing.

        Raises RunClosed, EpochLost where the run has no live state (Redis lost it, or forgot it after its end), and
        ValueError for a need that is not there.
        """
        woken: list[Wake] = []
        for chunk in shapes.records(steps, paths or {}):
            answer, *rest = self._scripts.call("add", run, chunk, MOST_WAKES)
            if answer == "UNKNOWN_NEED":
                raise ValueError(f"step {rest[0]} of run {run} needs {rest[1]}, which is not there")
            if answer == "UNKNOWN_RUN":
                raise EpochLost(f"run {run} has no live state: a scheduler will rebuild it, unless it has ended")
            if answer != "ADDED":
                raise RunClosed(f"run {run} takes no more steps")
            woken += shapes.wakes(rest)
        return woken

    def restore(self, run: str, settled: Sequence[tuple[Step, Outcome]]) -> None:
        """Put settled steps back, from the record."""
        for start in range(0, len(settled), SETTLED):
            part = settled[start : start + SETTLED]
            rows = [[s.id, shapes.spec_of(s, s.seconds), o.status, o.attempts, shapes.json_of(o)] for s, o in part]
            self._scripts.call("restore", run, json.dumps(rows))

    def drop(self, run: str, steps: Sequence[StepId]) -> list[str]:
        """Drop steps that have not ended and are not wanted any more; gives those that were dropped."""
        dropped: list[str] = []
        for start in range(0, len(steps), SETTLED):
            dropped += self._scripts.call("drop", run, *steps[start : start + SETTLED])
        return dropped

    def cancel(self, run: str, why: str = "cancelled") -> int | None:
        """Cancel what has not started: the number of steps still running, or None when there was nothing to cancel.

        why: an EndReason, kept for whoever ends the run when its last step has stopped.
        """
        cursor, running = "0", set[str]()
        while True:
            cursor, *leased = self._scripts.call("cancel", run, cursor, why)
            if not cursor.isdigit():
                return None
            running.update(leased)
            if cursor == "0":
                return len(running)

    def end(self, run: str, end: End) -> bool:
        """End a run that no commit ended; False when it had ended."""
        return bool(self._scripts.call("end", run, end_data(end))[0] == "ENDED")

    def note(
        self, run: str, kind: EventType, step: str = "", data: Mapping[str, Any] | None = None, status: str = ""
    ) -> None:
        """Append an event to an open run. status: `asking` or `running`, where the event changes it."""
        self._scripts.call("note", run, kind, step, json.dumps(data) if data else "", status)

    def forget(self, run: str, lifetime: float) -> None:
        """Give the keys of an ended run `lifetime` seconds to live."""
        self._scripts.call("forget", run, round(lifetime * 1000))

    def about(self, run: str) -> dict[str, str]:
        """The run's own fields, as far as they are set; empty when it has no live state."""
        key, names = self._keys.run(run), [f":{name}" for name in FIELDS]
        values: list[str | None] = guarded(lambda: self._client.hmget(key, names))
        return {name: value for name, value in zip(FIELDS, values, strict=True) if value is not None}

    def states(self, run: str) -> dict[StepId, LiveStep]:
        """Every step's state."""
        return {StepId(step): shapes.state_of(text) for step, text in self._fields(run) if not _OTHER.search(step)}

    def steps(self, run: str) -> dict[StepId, Step]:
        """Every step of the run, of all its plan versions."""
        found = ((field.partition("/"), text) for field, text in self._fields(run))
        return {StepId(step): shapes.step_of(text) for (step, _, part), text in found if part == "spec"}

    def step(self, run: str, step: str) -> Step | None:
        """One step of the run, where it is there."""
        text: str | None = guarded(lambda: self._client.hget(self._keys.run(run), f"{step}/spec"))
        return None if text is None else shapes.step_of(text)

    def outcomes(self, run: str, steps: Sequence[str]) -> dict[StepId, Outcome]:
        """Outcomes of these steps, as far as they have ended, read by pages."""
        found: dict[StepId, Outcome] = {}
        key = self._keys.run(run, "outcomes")
        for start in range(0, len(steps), SETTLED):
            part = list(steps[start : start + SETTLED])
            values: list[Any] = guarded(lambda part=part: self._client.hmget(key, part))  # type: ignore[misc]
            found |= {StepId(s): shapes.outcome_of(v) for s, v in zip(part, values, strict=True) if v is not None}
        return found

    def settled(self, run: str) -> int:
        """How many steps have an outcome."""
        return int(guarded(lambda: self._client.hlen(self._keys.run(run, "outcomes"))))

    def all_outcomes(self, run: str) -> Iterator[tuple[StepId, Outcome]]:
        """Every outcome, by pages."""
        pairs = self._client.hscan_iter(self._keys.run(run, "outcomes"), count=SETTLED)
        while found := guarded(lambda: next(pairs, None)):
            yield StepId(found[0]), shapes.outcome_of(found[1])

    def open_count(self, tenant: str) -> int:
        """Open runs of a tenant."""
        return int(guarded(lambda: self._client.scard(self._keys.open(tenant))))

    def ended(self, limit: int) -> list[str]:
        """Runs that have ended and whose events are not filed yet, oldest first."""
        return list(guarded(lambda: self._client.zrange(self._keys.ended, 0, limit - 1)))

    def cascading(self) -> list[str]:
        return sorted(guarded(lambda: self._client.smembers(self._keys.cascades)))

    def cancelling(self) -> list[str]:
        return sorted(guarded(lambda: self._client.smembers(self._keys.cancelling)))

    def overdue(self, limit: int = 100) -> list[str]:
        """Open runs whose deadline has passed, by Redis's clock."""
        key, due = self._keys.deadlines, clock.now(self._client, self._keys)
        return list(guarded(lambda: self._client.zrangebyscore(key, "-inf", due, start=0, num=limit)))

    def missing(self, runs: Sequence[str]) -> list[str]:
        """Those of the runs that have no live state, or not all of it: a run's join is added last."""
        pipe = self._client.pipeline(transaction=False)
        for run in runs:
            pipe.hmget(self._keys.run(run), ":status", ":join")
        found: list[list[str | None]] = guarded(pipe.execute)
        whole = [status == "cancelling" or join is not None for status, join in found]
        return [run for run, there in zip(runs, whole, strict=True) if not there]

    def _fields(self, run: str) -> Iterator[tuple[str, str]]:
        """What the run's hash holds, by pages; a field may come twice where the run grows meanwhile."""
        pairs = self._client.hscan_iter(self._keys.run(run), count=PAGE)
        while found := guarded(lambda: next(pairs, None)):
            yield found
