"""Goals: accepted once a key, read back as they were, ended once."""

import threading

import pytest

from fleet.core.budget import Budget, Usage
from fleet.core.goal import Goal
from fleet.core.ids import GoalId, RunId, StepId
from fleet.core.plan import AnyOf, Plan, Settled, Step
from fleet.core.run import End, EndReason, RunStatus
from fleet.errors import BadInput, KeyReused, UnknownGoal
from fleet.store.sql.goals import Accepted, Submission
from fleet.store.sql.record import Record

WON = End(status=RunStatus.SUCCEEDED, reason=EndReason.FINISHED, answer={"text": "42"})
LOST = End(status=RunStatus.FAILED, reason=EndReason.OVER_BUDGET, detail="no money left")


def of(submission: Submission, *, new: bool) -> Accepted:
    return Accepted(goal_id=submission.goal_id, run_id=submission.run_id, new=new)


def test_a_goal_is_read_back_as_it_was_submitted(record, submit):
    submission = submit(
        objective="naïve \U0001f600 \x00 $5 million",
        criteria=("short",),
        inputs={"rows": [1, None, {"a": 0.5}]},
        budget=Budget(steps=7, money=1.5),
        tenant="acme",
        key="k",
        labels={"team": "blue"},
    )
    submission = submission.model_copy(update={"traceparent": "00-abc-def-01"})
    assert record.goals.accept([submission]) == [of(submission, new=True)]
    found = record.goals.get(submission.goal_id)
    assert (found.goal, found.run_id, found.traceparent) == (submission.goal, submission.run_id, "00-abc-def-01")
    assert (found.status, found.end, found.ended, found.usage) == (RunStatus.RUNNING, None, None, Usage())
    assert found == record.goals.of_run(submission.run_id)
    assert abs(found.created - record.db.now()).total_seconds() < 60


def test_a_plan_that_a_person_wrote_is_accepted_with_its_goal(record, submit):
    plan = Plan(steps=(Step(id=StepId("1"), tool="a", join=AnyOf()),), source="1. a()")
    submission = submit(plan=plan)
    record.goals.accept([submission])
    assert record.plans.all(submission.run_id) == (plan,)


def test_the_same_key_gives_the_same_goal(record, submit):
    """R35."""
    first, second = submit(key="k", inputs={"a": 1, "b": 2}), submit(key="k", inputs={"b": 2, "a": 1})
    assert record.goals.accept([first]) == [of(first, new=True)]
    assert record.goals.accept([second]) == [of(first, new=False)]
    with pytest.raises(UnknownGoal):
        record.goals.get(second.goal_id)


def test_the_same_key_with_another_body_is_refused_as_an_item(record, submit):
    """R35."""
    first, other, fresh = submit(key="k"), submit("something else", key="k"), submit(key="l")
    record.goals.accept([first])
    refused, accepted = record.goals.accept([other, fresh])
    assert isinstance(refused, KeyReused)
    assert "'k'" in str(refused)
    assert first.goal_id in str(refused)
    assert accepted == of(fresh, new=True)


def test_the_plan_is_part_of_the_body_down_to_its_join_policies(record, submit):
    """R35."""
    plans = [Plan(steps=(Step(id=StepId("1"), tool="a", join=join),)) for join in (AnyOf(), Settled())]
    answers = record.goals.accept([submit(key="k", plan=plan) for plan in plans])
    assert [type(answer) for answer in answers] == [Accepted, KeyReused]


def test_a_key_twice_in_one_batch_is_one_goal(record, submit):
    """R35."""
    first, same, other = submit(key="k"), submit(key="k"), submit("something else", key="k")
    new, old, refused = record.goals.accept([first, same, other])
    assert (new, old) == (of(first, new=True), of(first, new=False))
    assert isinstance(refused, KeyReused)


def test_tenants_do_not_share_keys(record, submit):
    """R38."""
    first, second = submit(key="k", tenant="a"), submit("other", key="k", tenant="b")
    assert record.goals.accept([first, second]) == [of(first, new=True), of(second, new=True)]


def test_a_submission_sent_twice_is_one_goal_even_without_a_key(record, submit):
    submission = submit()
    assert record.goals.accept([submission]) == [of(submission, new=True)]
    assert record.goals.accept([submission]) == [of(submission, new=False)]
    assert record.goals.accept([]) == []


def test_ten_thousand_goals_are_one_call(record):
    """R35: errors itemised; goals that were there before are told from new ones."""
    batch = [
        Submission(
            goal_id=GoalId(f"G{n:05}"), run_id=RunId(f"R{n:05}"), goal=Goal(objective=f"goal {n}", key=f"k{n % 9_999}")
        )
        for n in range(10_000)
    ]
    answers = record.goals.accept(batch)
    assert answers[:-1] == [of(submission, new=True) for submission in batch[:-1]]
    assert isinstance(answers[-1], KeyReused)
    assert record.goals.count_open("default") == 9_999
    assert record.goals.accept(batch[:2_000]) == [of(submission, new=False) for submission in batch[:2_000]]


def test_a_race_for_a_key_has_one_winner(database_url, record):
    """R35: two processes' connections at once."""
    other = Record.open(database_url)
    start, answers = threading.Barrier(2), {}

    def run(name: str, on: Record) -> None:
        keys = [str(n) for n in range(200)]
        batch = [
            Submission(goal_id=GoalId(f"{name}{key}"), run_id=RunId(f"r{name}{key}"), goal=Goal(objective="x", key=key))
            for key in (keys if name == "a" else reversed(keys))
        ]
        start.wait()
        answers[name] = {item.goal.key: answer for item, answer in zip(batch, on.goals.accept(batch), strict=True)}

    threads = [threading.Thread(target=run, args=args) for args in (("a", record), ("b", other))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    for key, answer in answers["a"].items():
        assert answer.goal_id == answers["b"][key].goal_id
        assert answer.new != answers["b"][key].new


def test_an_unknown_goal_is_said_to_be_unknown(record):
    for ask in (
        lambda: record.goals.get(GoalId("none")),
        lambda: record.goals.of_run(RunId("none")),
        lambda: record.goals.end(RunId("none"), WON, Usage()),
        lambda: record.goals.set_status(RunId("none"), RunStatus.ASKING),
        lambda: record.goals.find("none"),
        lambda: record.goals.find(""),
    ):
        with pytest.raises(UnknownGoal):
            ask()


def test_the_first_end_stands(record, submit):
    """R3."""
    submission = submit()
    record.goals.accept([submission])
    used = Usage(calls=3, input_tokens=10, money=0.25)
    assert record.goals.end(submission.run_id, WON, used) == WON
    assert record.goals.end(submission.run_id, LOST, Usage()) == WON
    found = record.goals.get(submission.goal_id)
    assert (found.status, found.end, found.usage) == (RunStatus.SUCCEEDED, WON, used)
    assert found.ended >= found.created


def test_a_status_never_leaves_an_end(record, run):
    """R22: nor is a cancelled run told to go on."""
    assert record.goals.set_status(run, RunStatus.ASKING) == RunStatus.ASKING
    assert record.goals.set_status(run, RunStatus.RUNNING) == RunStatus.RUNNING
    assert record.goals.set_status(run, RunStatus.CANCELLING) == RunStatus.CANCELLING
    assert record.goals.set_status(run, RunStatus.ASKING) == RunStatus.CANCELLING
    record.goals.end(run, LOST, Usage())
    assert record.goals.set_status(run, RunStatus.RUNNING) == RunStatus.FAILED
    with pytest.raises(ValueError, match="ended by"):
        record.goals.set_status(run, RunStatus.SUCCEEDED)
    with pytest.raises(ValueError, match="no end"):
        record.goals.end(run, End(status=RunStatus.RUNNING, reason=EndReason.FINISHED), Usage())


def test_open_runs_come_in_pages(record, submit):
    batch = [submit() for _ in range(5)]
    record.goals.accept(batch)
    record.goals.end(batch[1].run_id, WON, Usage())
    first = record.goals.open_runs(limit=2)
    rest = record.goals.open_runs(after=first[-1][0])
    assert first + rest == [(item.run_id, item.goal_id) for n, item in enumerate(batch) if n != 1]
    assert record.goals.count_open("default") == 4
    assert record.goals.count_open("other") == 0


def test_goals_are_listed_newest_first(record, submit):
    batch = [submit(tenant="a"), submit(tenant="b"), submit(tenant="a"), submit(tenant="a")]
    record.goals.accept(batch)
    record.goals.end(batch[3].run_id, LOST, Usage())

    def ids(**which: object) -> list[str]:
        return [item.goal_id for item in record.goals.list(**which)]

    assert ids() == ["G0004", "G0003", "G0002", "G0001"]
    assert ids(tenant="a", limit=2) == ["G0004", "G0003"]
    assert ids(tenant="a", after="G0003") == ["G0001"]
    assert ids(status=RunStatus.FAILED) == ["G0004"]


def test_a_goal_is_found_by_the_beginning_of_its_id(record, submit):
    record.goals.accept([submit() for _ in range(12)])
    assert record.goals.find("G0003") == "G0003"
    assert record.goals.find("g0003") == "G0003"
    assert record.goals.find("r0010") == "G0010"
    with pytest.raises(BadInput, match=r"G0001, G0002, G0003, G0004, G0005, \.\.\."):
        record.goals.find("G")
    with pytest.raises(UnknownGoal):
        record.goals.find("%")


def test_a_whole_id_is_found_though_others_begin_with_it(record):
    ids = ["X", "XY", "XYZ"]
    record.goals.accept([Submission(goal_id=GoalId(i), run_id=RunId(f"r{i}"), goal=Goal(objective="x")) for i in ids])
    assert [record.goals.find(i) for i in ids] == ids
