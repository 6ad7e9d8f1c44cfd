"""How a goal stands, as people see it: from its live state, or from the record where that is gone."""

from collections import Counter
from collections.abc import Mapping, Sequence

from fleet.core.budget import Usage
from fleet.core.ids import GoalId, RunId
from fleet.core.outcome import Failure
from fleet.core.run import RunStatus
from fleet.core.value import Json, Value
from fleet.engine.deps import Deps
from fleet.engine.paging import outcomes_of
from fleet.store.sql.goals import GoalRecord

MAIN = "main"
"""The lane of planner and joiner."""
OPEN = frozenset({"waiting", "loading", "joining", "ready", "held", "parked"})
"""States of steps that are to start yet."""


ASKS = (RunStatus.ASKING, RunStatus.PAUSED)
"""States in which a question may be open."""


class StepStatus(Value):
    """A step as people see it. state: waiting, ready, held, leased, parked, or the status it ended with."""

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
    """A goal as it stands. question: what the run asks a person, while it does. origin: the run that it goes on from.

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
    origin: str = ""
    labels: Mapping[str, str] = {}


def status_of(record: GoalRecord, deps: Deps) -> GoalStatus:
    """How a goal and each of its steps stand."""
    end = record.end
    questions = deps.record.answers.open(record.run_id) if record.status in ASKS else []
    ended = record.ended.timestamp() if record.ended else deps.clock()
    steps = _steps(record.run_id, deps)
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
        unserved={} if end else _waiting(steps, deps),
        reissued=_reissued(record.goal_id, deps),
        usage=record.usage if end else deps.record.ledger.usage(record.run_id),
        seconds=max(0.0, ended - record.begun.timestamp()),
        versions=len(deps.record.plans.all(record.run_id)),
        origin=record.origin or "",
        labels=record.goal.labels,
    )


def _waiting(steps: Sequence[StepStatus], deps: Deps) -> dict[str, int]:
    lanes = Counter(step.lane for step in steps if step.state in OPEN)
    return {lane: lanes[lane] for lane in deps.live.serving.unserved(lanes)}


def _steps(run: RunId, deps: Deps) -> tuple[StepStatus, ...]:
    steps, states = deps.live.runs.steps(run), deps.live.runs.states(run)
    if not steps:
        return _filed_steps(run, deps)
    ended = {step: (outcome.seconds, outcome.failure) for step, outcome in outcomes_of(run, list(steps), deps)}
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


def _filed_steps(run: RunId, deps: Deps) -> tuple[StepStatus, ...]:
    """Of a run whose live state is gone: from the record."""
    outcomes = {step: outcome for page in deps.record.outcomes.pages(run) for step, outcome in page}
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
        for plan in deps.record.plans.all(run)
        for step in plan.steps
    )


def _reissued(goal: GoalId, deps: Deps) -> tuple[Reissued, ...]:
    return tuple(
        Reissued(run_id=row.key.run, step=row.key.step, ordinal=row.key.ordinal, name=row.name, times=row.reissues)
        for row in deps.record.ledger.reissued_for(goal)
    )
