"""A run that begins with what another one came to, in one transaction."""

import threading

import pytest

from fleet.core.budget import Usage
from fleet.core.goal import Goal
from fleet.core.ids import Fence, GoalId, RunId, StepId
from fleet.core.outcome import Failure, FailureClass, Outcome, Status
from fleet.core.plan import Plan, Step
from fleet.core.run import End, EndReason, RunStatus
from fleet.errors import KeyReused, WrongState
from fleet.store.sql.ledger import CallKey
from fleet.store.sql.takeovers import Call, Takeover

A, B = StepId("a"), StepId("b")
DONE = Outcome(status=Status.SUCCEEDED, value={"n": 1})
FAILED = Outcome(status=Status.FAILED, failure=Failure(type="broken", message="no"))
ENDED = End(status=RunStatus.FAILED, reason=EndReason.STEPS_FAILED)
AGAIN = RunId("Z1")


@pytest.fixture
def origin(record, submit):
    """A goal that has failed: a succeeded, b did not; b paid for one call, and another one is in doubt."""
    plan = Plan(steps=(Step(id=A, tool="t"), Step(id=B, tool="t", needs=(A,))))
    submission = submit(plan=plan)
    record.goals.accept([submission])
    run = submission.run_id
    for step, outcome in ((A, DONE), (B, FAILED)):
        record.outcomes.put(run, step, outcome, Fence("1.1"))
    for ordinal in (0, 1):
        record.ledger.open(CallKey(run, B, ordinal), "tool", "t", Usage(calls=1), f"key{ordinal}", "hash")
    record.ledger.done(CallKey(run, B, 0), {"said": "x"}, Usage(calls=1, money=2.0))
    doubt = Failure(cls=FailureClass.IN_DOUBT, type="abandoned", message="?")
    record.ledger.failed(CallKey(run, B, 1), doubt, Usage(calls=1))
    record.goals.end(run, ENDED, Usage(calls=2, money=2.0))
    return submission


def takeover(origin, record, **more):
    base = {"origin": origin.run_id, "run_id": AGAIN, "goal_id": origin.goal_id, "again": frozenset({B})}
    plans = record.plans.all(origin.run_id)
    return Takeover(**(base | {"plans": plans, "calls": tuple(record.takeovers.calls(origin.run_id))} | more))


def test_a_retry_is_the_newest_run_with_what_stands_and_nothing_used(record, origin):
    """R23: and the run that ended is as it was."""
    before = record.goals.of_run(origin.run_id)
    work = takeover(origin, record)
    record.takeovers.take(work)
    record.takeovers.take(work)
    newest = record.goals.get(origin.goal_id)
    assert (newest.run_id, newest.status, newest.origin) == (AGAIN, RunStatus.RUNNING, origin.run_id)
    assert (record.outcomes.get(AGAIN, A), record.outcomes.get(AGAIN, B)) == (DONE, None)
    assert record.plans.all(AGAIN) == record.plans.all(origin.run_id)
    assert record.ledger.usage(AGAIN) == Usage()
    paid, doubted = record.ledger.rows(AGAIN)
    assert (paid.state, paid.response, paid.idempotency_key) == ("done", {"said": "x"}, "key0")
    assert (doubted.state, doubted.idempotency_key) == ("open", "key1")
    assert record.goals.of_run(origin.run_id) == before
    assert [found.run_id for found in record.goals.list()] == [AGAIN]


def test_a_call_in_doubt_counts_as_open_though_its_run_closed_it(record, origin):
    """R4."""
    states = [(call.ordinal, call.state) for call in record.takeovers.calls(origin.run_id)]
    assert states == [(0, "done"), (1, "open")]
    assert isinstance(record.takeovers.calls(origin.run_id)[0], Call)


def test_of_many_that_retry_a_goal_at_once_one_does(record, origin):
    """R23."""
    works = [takeover(origin, record, run_id=RunId(f"Z{n}")) for n in range(8)]
    refused: list[WrongState] = []

    def take(work: Takeover) -> None:
        try:
            record.takeovers.take(work)
        except WrongState as late:
            refused.append(late)

    threads = [threading.Thread(target=take, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 7
    assert len(record.goals.open_runs()) == 1


def test_a_fork_is_a_goal_of_its_own_and_its_key_is_used_once(record, origin, submit):
    """R23, R35."""
    record.goals.accept([submit(key="k")])
    goal = Goal(objective="otherwise", labels={"forked_from": origin.goal_id})
    used = takeover(origin, record, goal_id=GoalId("GF"), goal=goal.model_copy(update={"key": "k"}))
    with pytest.raises(KeyReused):
        record.takeovers.take(used)
    record.takeovers.take(takeover(origin, record, goal_id=GoalId("GF"), goal=goal))
    assert record.goals.get(GoalId("GF")).goal == goal
    assert record.goals.get(origin.goal_id).run_id == origin.run_id


def test_goals_below_a_goal_are_found_at_any_depth(record, submit):
    """R22: also below one that has ended."""
    parent = submit()
    child = submit(parent=parent.goal_id)
    grandchild, other = submit(parent=child.goal_id), submit()
    record.goals.accept([parent, child, grandchild, other])
    record.goals.end(child.run_id, ENDED, Usage())
    assert record.goals.below(parent.goal_id) == [(grandchild.run_id, grandchild.goal_id)]
    assert record.goals.below(other.goal_id) == []


def test_a_paused_run_goes_on_only_by_being_told_to(record, run):
    """R22, R23: neither a question nor its answer lets it go; it may be cancelled."""
    goals = record.goals
    assert goals.set_status(run, RunStatus.PAUSED) is RunStatus.PAUSED
    assert goals.set_status(run, RunStatus.ASKING) is RunStatus.PAUSED
    assert goals.set_status(run, RunStatus.RUNNING) is RunStatus.PAUSED
    assert goals.open_in(RunStatus.PAUSED) == {run}
    assert goals.unpause(run, RunStatus.RUNNING) is RunStatus.RUNNING
    assert goals.set_status(run, RunStatus.PAUSED) is RunStatus.PAUSED
    assert goals.set_status(run, RunStatus.CANCELLING) is RunStatus.CANCELLING
    assert goals.unpause(run, RunStatus.RUNNING) is RunStatus.CANCELLING
    assert goals.set_status(run, RunStatus.PAUSED) is RunStatus.CANCELLING
