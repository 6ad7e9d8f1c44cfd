"""The producer's API: submit goals, watch them, get their answers. Needs no Celery set-up of the caller's."""

import logging
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType

from fleet.core.budget import Usage
from fleet.core.events import Event, EventType
from fleet.core.goal import Goal
from fleet.core.ids import GoalId, RunId
from fleet.core.outcome import Failure
from fleet.core.plan import Plan
from fleet.core.run import End, RunStatus
from fleet.core.value import Json, Value
from fleet.embedded.attach import reachable
from fleet.engine import answers, cancel, recover, submit
from fleet.engine.deps import Deps, open_deps
from fleet.engine.paging import outcomes_of
from fleet.engine.submit import Handle
from fleet.errors import FleetFault, StoreUnreachable, TimedOut
from fleet.settings import Settings, load_settings
from fleet.store.sql.goals import GoalRecord

log = logging.getLogger("fleet.client")
LOOK = 5.0
"""Seconds after which the record is looked at even if nothing was heard of an end."""
WAIT = 0.5
"""Seconds that one read of a live stream waits; the record is looked at in between."""
AWAY = 30.0
"""Seconds that a watch lasts out a Redis that is away."""
MAIN = "main"
"""The lane of planner and joiner."""
OPEN = frozenset({"waiting", "loading", "joining", "ready", "parked"})
"""States of steps that are to start yet."""


class StepStatus(Value):
    """A step as people see it. state: waiting, ready, leased, parked, or the status it ended with."""

    id: str
    kind: str
    tool: str
    state: str
    lane: str = MAIN
    seconds: float = 0.0
    failure: Failure | None = None


class Reissued(Value):
    """A call that was under way when its worker died, and was issued again: it may be billed twice.

    name: of the model or tool. ordinal: which call of the step, from 0. times: how often it was issued again.
    """

    run_id: str
    step: str
    ordinal: int
    name: str
    times: int


class GoalStatus(Value):
    """A goal as it stands. question: what the run asks a person, while it does.

    unserved: lanes that no live worker serves, with the number of its steps that wait for them. reissued: calls of all
    its runs that may be billed twice.
    """

    goal_id: str
    run_id: str
    objective: str
    status: RunStatus
    reason: str = ""
    answer: Json = None
    detail: str = ""
    question: str = ""
    steps: tuple[StepStatus, ...] = ()
    unserved: Mapping[str, int] = {}
    reissued: tuple[Reissued, ...] = ()
    usage: Usage = Usage()
    seconds: float = 0.0
    versions: int = 0


class Fleet:
    """A connection to a fleet: the one that FLEET_REDIS_URL names, else the one on the data folder."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

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
        record = self._record(goal_id)
        end = record.end
        questions = self._deps.record.answers.open(record.run_id) if record.status is RunStatus.ASKING else []
        ended = record.ended.timestamp() if record.ended else self._deps.clock()
        steps = self._steps(record.run_id)
        return GoalStatus(
            goal_id=record.goal_id,
            run_id=record.run_id,
            objective=record.goal.objective,
            status=end.status if end else record.status,
            reason=end.reason if end else "",
            answer=end.answer if end else None,
            detail=end.detail if end else "",
            question=questions[0].question if questions else "",
            steps=steps,
            unserved={} if end else self._waiting(steps),
            reissued=self._reissued(record.goal_id),
            usage=record.usage if end else self._deps.record.ledger.usage(record.run_id),
            seconds=max(0.0, ended - record.created.timestamp()),
            versions=len(self._deps.record.plans.all(record.run_id)),
        )

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

    def answer(self, goal_id: str, text: str, by: str = "") -> None:
        """Answer what the goal asks. Raises UnknownGoal, BadInput."""
        answers.answer(self._record(goal_id).run_id, text, by, self._deps)

    def _record(self, goal_id: str) -> GoalRecord:
        return self._deps.record.goals.get(GoalId(goal_id))

    def _read(self, run: RunId, after: str) -> list[Event]:
        live = self._deps.live.streams.read(run, after, wait=WAIT)
        return live or self._deps.record.events.read(run, after)

    def _reissued(self, goal: GoalId) -> tuple[Reissued, ...]:
        return tuple(
            Reissued(run_id=row.key.run, step=row.key.step, ordinal=row.key.ordinal, name=row.name, times=row.reissues)
            for row in self._deps.record.ledger.reissued_for(goal)
        )

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

    def _waiting(self, steps: Sequence[StepStatus]) -> dict[str, int]:
        lanes = Counter(step.lane for step in steps if step.state in OPEN)
        return {lane: lanes[lane] for lane in self._deps.live.serving.unserved(lanes)}

    def _steps(self, run: RunId) -> tuple[StepStatus, ...]:
        steps, states = self._deps.live.runs.steps(run), self._deps.live.runs.states(run)
        if not steps:
            return self._filed_steps(run)
        ended = {
            step: (outcome.seconds, outcome.failure) for step, outcome in outcomes_of(run, list(steps), self._deps)
        }
        found = []
        for step_id, step in steps.items():
            seconds, failure = ended.get(step_id, (0.0, None))
            found.append(
                StepStatus(
                    id=step_id,
                    kind=step.kind,
                    tool=step.tool,
                    lane=step.lane,
                    state=states[step_id].state if step_id in states else "dropped",
                    seconds=seconds,
                    failure=failure,
                )
            )
        return tuple(found)

    def _filed_steps(self, run: RunId) -> tuple[StepStatus, ...]:
        """Of a run whose live state is gone: from the record."""
        outcomes = {step: outcome for page in self._deps.record.outcomes.pages(run) for step, outcome in page}
        return tuple(
            StepStatus(
                id=step.id,
                kind=step.kind,
                tool=step.tool,
                lane=step.lane,
                state=outcomes[step.id].status.value if step.id in outcomes else "unknown",
                seconds=outcomes[step.id].seconds if step.id in outcomes else 0.0,
                failure=outcomes[step.id].failure if step.id in outcomes else None,
            )
            for plan in self._deps.record.plans.all(run)
            for step in plan.steps
        )


def _greet(deps: Deps) -> None:
    try:
        recover.ensure_epoch(deps)
    except StoreUnreachable as away:
        if deps.record.epochs.last_beat() is None:  # nobody would ever start what is accepted here
            raise
        log.warning("goals are accepted, and start later: %s", away)
