"""The producer's API: submit goals, watch them, get their answers. Needs no Celery set-up of the caller's."""

import logging
import math
import time
from collections.abc import Iterator, Sequence
from types import TracebackType

from fleet.core.events import Event, EventType
from fleet.core.goal import Goal
from fleet.core.ids import GoalId, RunId
from fleet.core.plan import Plan
from fleet.core.run import End, RunStatus
from fleet.embedded.attach import reachable
from fleet.engine import answers, branch, cancel, pause, recover, status, submit
from fleet.engine.branch import Changes
from fleet.engine.dead import Dead
from fleet.engine.deps import Deps, open_deps
from fleet.engine.status import MAIN, GoalStatus, StepStatus
from fleet.engine.submit import Handle
from fleet.errors import FleetFault, StoreUnreachable, TimedOut, WrongState
from fleet.settings import Settings, load_settings
from fleet.store.sql.goals import GoalRecord

__all__ = ["Changes", "Fleet", "GoalStatus", "Handle", "StepStatus"]

log = logging.getLogger("fleet.client")
NO_CHANGES = Changes()
LOOK = 5.0
"""Seconds after which the record is looked at even if nothing was heard of an end."""
WAIT = 0.5
"""Seconds that one read of a live stream waits; the record is looked at in between."""
AWAY = 30.0
"""Seconds that a watch lasts out a Redis that is away."""


class Fleet:
    """A connection to a fleet: the one that FLEET_REDIS_URL names, else the one on the data folder."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self.dead = Dead(deps)
        """Steps that took their workers down: to list, to look at, to replay."""

    @classmethod
    def connect(cls, settings: Settings | None = None) -> "Fleet":
        """Raises StoreUnreachable where there is no fleet.

        Where Redis is away and a fleet has worked on this record, goals are accepted all the same, and start later.
        """
        found = reachable(settings or load_settings())
        deps = open_deps(found, service="fleet-client")
        try:
            _greet(deps)
        except BaseException:
            deps.close()
            raise
        return cls(deps)

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._deps.close()

    def submit(self, goal: Goal, *, plan: Plan | None = None) -> Handle:
        """Accept one goal. Raises KeyReused, and NotNow (Overloaded, StoreUnreachable) with when to try again."""
        answer = self.submit_many([(goal, plan)])[0]
        if isinstance(answer, FleetFault):
            raise answer
        return answer

    def submit_many(self, items: Sequence[tuple[Goal, Plan | None]]) -> list[Handle | FleetFault]:
        """Accept many goals in one transaction; an error of one is its item."""
        return submit.submit(items, self._deps)

    def status(self, goal_id: str) -> GoalStatus:
        """Raises UnknownGoal."""
        return status.status_of(self._record(goal_id), self._deps)

    def unserved(self, plan: Plan | None = None) -> list[str]:
        """Lanes that a goal needs and no live worker serves: those of its plan, if it has one, and the main one."""
        lanes = [step.lane for step in plan.steps] if plan else []
        return self._deps.live.serving.unserved([*lanes, MAIN])

    def watch(self, goal_id: str, after: str = "", timeout: float | None = None) -> Iterator[Event]:
        """Events after an id, as they come, until the run has ended.

        Raises UnknownGoal, TimedOut, and StoreUnreachable where Redis stays away for AWAY seconds.
        """
        run = self._record(goal_id).run_id
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            events = self._read_patiently(run, after)
            for event in events:
                after = event.id
                yield event
                if event.type is EventType.ENDED:
                    return
            if not events and self._record(goal_id).end and not self._read(run, after):
                return
            if until is not None and time.monotonic() > until:
                raise TimedOut(f"goal {goal_id} has not ended within {timeout:g} s; it goes on")

    def result(self, goal_id: str, timeout: float | None = None) -> End:
        """How the run ended; waits for it. Raises UnknownGoal, TimedOut."""
        until = time.monotonic() + (timeout if timeout is not None else math.inf)
        seen = self._newest_end()  # before the first look, so that no end falls between
        while (record := self._record(goal_id)).end is None:
            if time.monotonic() >= until:
                raise TimedOut(f"goal {goal_id} has not ended within {timeout:g} s; it goes on")
            seen = self._heard(record.run_id, seen, min(until, time.monotonic() + LOOK))
        return record.end

    def _newest_end(self) -> str:
        """Where to listen from. While Redis is away nothing ends; what ended before is on record."""
        try:
            return self._deps.live.streams.newest_end()
        except StoreUnreachable:
            return "0"

    def _heard(self, run: RunId, seen: str, until: float) -> str:
        """Listen for the end of a run, until a time (monotonic) at most; gives the id to go on from."""
        while (left := until - time.monotonic()) > 0:
            try:
                seen, ended = self._deps.live.streams.ends(seen, min(WAIT, left))
            except StoreUnreachable:  # the record tells as well
                self._deps.sleep(min(WAIT, left))
                return self._newest_end()
            if run in ended:
                break
        return seen

    def cancel(self, goal_id: str) -> RunStatus:
        """The status after it: `cancelled` once nothing of the goal runs any more, until then `cancelling`."""
        return cancel.cancel(self._record(goal_id).run_id, self._deps)

    def pause(self, goal_id: str) -> RunStatus:
        """No step of the goal or its child goals starts from here on; what runs goes on to its end. Deadlines go on.

        The status after it: `paused`, or `cancelling`. Raises UnknownGoal, WrongState where it has ended.
        """
        return pause.pause(self._not_ended(goal_id), self._deps)

    def resume(self, goal_id: str) -> RunStatus:
        """The goal and its child goals go on. The status after it. Raises UnknownGoal, WrongState."""
        return pause.resume(self._not_ended(goal_id), self._deps)

    def retry(self, goal_id: str, step: str = "", *, redo_writes: bool = False) -> Handle:
        """Go on with a goal that has ended, in a further run of it: from a step on, or from all that failed.

        What succeeded, and does not depend on that, is not run or billed again. A step that writes and has done so is
        refused unless `redo_writes`. Raises UnknownGoal, WrongState, BadInput, Overloaded.
        """
        return branch.retry(self._record(goal_id), step, self._deps, redo_writes=redo_writes)

    def fork(self, goal_id: str, at: str = "", changes: Changes = NO_CHANGES) -> Handle:
        """A new goal from a checkpoint of another: after a step (its id), after a plan (`version.2`), or as it stands.

        What had succeeded by then is taken over and billed no more; the rest is run, with what is changed. The fork's
        labels say what it came from. Raises UnknownGoal, BadInput, Overloaded, KeyReused.
        """
        return branch.fork(self._record(goal_id), at, changes, self._deps)

    def answer(self, goal_id: str, text: str, by: str = "") -> None:
        """Answer what the goal asks. Raises UnknownGoal, BadInput."""
        answers.answer(self._record(goal_id).run_id, text, by, self._deps)

    def _not_ended(self, goal_id: str) -> RunId:
        record = self._record(goal_id)
        if record.status.ended:
            raise WrongState(f"goal {goal_id} has ended ({record.status}): it may be retried or forked.")
        return record.run_id

    def _record(self, goal_id: str) -> GoalRecord:
        return self._deps.record.goals.get(GoalId(goal_id))

    def _read(self, run: RunId, after: str) -> list[Event]:
        live = self._deps.live.streams.read(run, after, wait=WAIT)
        return live or self._deps.record.events.read(run, after)

    def _read_patiently(self, run: RunId, after: str) -> list[Event]:
        """A Redis that is started again has what it had."""
        until = time.monotonic() + AWAY
        while True:
            try:
                return self._read(run, after)
            except StoreUnreachable:
                if time.monotonic() > until:
                    raise
            self._deps.sleep(WAIT)


def _greet(deps: Deps) -> None:
    try:
        recover.ensure_epoch(deps)
    except StoreUnreachable as away:
        if deps.record.epochs.last_beat() is None:  # nobody would ever start what is accepted here
            raise
        log.warning("goals are accepted, and start later: %s", away)
