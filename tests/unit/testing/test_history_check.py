"""Each rule of the history checker finds what breaks it, and nothing in a history where all is well."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleet.core.budget import Budget, Usage
from fleet.core.events import Event, EventType
from fleet.core.goal import Goal
from fleet.core.ids import Fence, GoalId, RunId, StepId
from fleet.core.outcome import Outcome, Status
from fleet.core.plan import All, AnyOf, BestEffort, JoinPolicy, Quorum, Settled, Step
from fleet.core.run import End, EndReason, RunStatus
from fleet.store.sql.evidence import Closed
from fleet.store.sql.goals import GoalRecord
from fleet.store.sql.ledger import CallKey, CallRow
from fleet.testing.check import check_history
from fleet.testing.history import Finding, History, Rule, RunHistory, Text

RUN = RunId("r1")
ENDED = datetime(2026, 1, 1, tzinfo=UTC)
USED = Usage(calls=1, output_tokens=10, money=0.5)
DONE = Outcome(status=Status.SUCCEEDED, value=1)
Told = tuple[str, str, dict[str, Any]]
PLAIN: tuple[Told, ...] = (
    ("run.accepted", "", {}),
    ("step.added", "a", {}),
    ("step.added", "b", {}),
    ("step.added", "join.1", {}),
    ("step.started", "a", {"attempt": 1}),
    ("step.lost", "a", {}),
    ("step.started", "a", {"attempt": 2}),
    ("step.ended", "a", {"status": "succeeded"}),
    ("step.started", "b", {"attempt": 1}),
    ("step.ended", "b", {"status": "succeeded"}),
    ("step.started", "join.1", {"attempt": 1}),
    ("step.ended", "join.1", {"status": "succeeded"}),
    ("run.ended", "", {"status": "succeeded"}),
)


def events(*told: Told, epoch: int = 1, first: int = 0) -> tuple[Event, ...]:
    return tuple(
        Event(id=f"{epoch}-{first + n}", type=EventType(kind), at=100.0 + n, step=step, data=data)
        for n, (kind, step, data) in enumerate(told)
    )


def step(name: str, *needs: str, join: JoinPolicy | None = None) -> Step:
    return Step(id=StepId(name), tool="act", needs=tuple(map(StepId, needs)), join=join or All())


def goal(**more: Any) -> GoalRecord:
    about: dict[str, Any] = {
        "goal": Goal(objective="try", budget=Budget(tokens=10, money=0.5)),
        "status": RunStatus.SUCCEEDED,
        "end": End(status=RunStatus.SUCCEEDED, reason=EndReason.FINISHED),
        "usage": USED,
        "created": ENDED,
        "ended": ENDED,
    }
    return GoalRecord.model_construct(goal_id=GoalId("g1"), run_id=RUN, **(about | more))


def call(usage: Usage = USED, **more: Any) -> CallRow:
    about: dict[str, Any] = {"kind": "model", "name": "m", "state": "done", "reservation": Usage(), "usage": usage}
    return CallRow(key=CallKey(RUN, StepId("a"), 0), idempotency_key="r1:a:0", request_hash="", **(about | more))


GOOD = RunHistory(
    run=RUN,
    goal=goal(),
    steps={StepId("a"): step("a"), StepId("b"): step("b", "a")},
    outcomes={StepId("a"): DONE.model_copy(update={"usage": USED}), StepId("b"): DONE, StepId("join.1"): DONE},
    fences={StepId("a"): Fence("1.2"), StepId("b"): Fence("1.1"), StepId("join.1"): Fence("1.1")},
    events=events(*PLAIN),
    calls=(call(),),
    closed=(Closed(USED, ENDED - timedelta(seconds=1)),),
    texts=(Text("outcomes", StepId("a"), "nothing to see"),),
)


def found(run: RunHistory, **about: Any) -> list[tuple[Rule, str]]:
    return [(each.rule, each.step) for each in check_history(History(runs=(run,), **about))]


def told(*changes: Callable[[list[Told]], object], base: Sequence[Told] = PLAIN) -> RunHistory:
    """The good run, with its events changed before they are numbered."""
    changed = list(base)
    for change in changes:
        change(changed)
    return replace(GOOD, events=events(*changed))


def test_nothing_is_found_where_all_is_as_promised() -> None:
    about = {"asked": {"r1:a:0": 1}, "secrets": {"token": "s3cr3t"}, "texts": {"worker.log": "all is well"}}
    assert found(GOOD, **about) == []


def test_a_rebuilt_run_goes_on_from_what_is_on_record() -> None:
    """R8, R34: the next epoch does not add what had ended, and counts its attempts and numbers anew."""
    rebuilt: tuple[Told, ...] = (
        ("run.rebuilt", "", {}),
        ("step.added", "b", {}),
        ("step.added", "join.1", {}),
        ("step.started", "b", {"attempt": 1}),
        *PLAIN[9:],
    )
    both = events(*PLAIN[:9]) + events(*rebuilt, epoch=2, first=5)
    assert found(replace(GOOD, events=both)) == []


def test_a_goal_that_has_not_ended_is_found() -> None:
    """R5."""
    open_ = goal(end=None, ended=None, status=RunStatus.RUNNING, usage=Usage())
    assert (Rule.ENDED_ONCE, "") in found(replace(GOOD, goal=open_))


def test_an_end_that_is_told_twice_not_at_all_or_otherwise_is_found() -> None:
    """R5."""
    assert (Rule.ENDED_ONCE, "") in found(told(lambda all_: all_.append(PLAIN[-1])))
    assert found(told(lambda all_: all_.pop())) == [(Rule.ENDED_ONCE, "")]
    assert found(told(lambda all_: all_.__setitem__(-1, ("run.ended", "", {"status": "failed"})))) == [
        (Rule.ENDED_ONCE, "")
    ]


def test_two_outcomes_of_one_step_are_found() -> None:
    """R3."""
    assert found(told(lambda all_: all_.insert(10, PLAIN[9]))) == [(Rule.ONE_OUTCOME, "b")]


def test_an_outcome_that_events_tell_otherwise_than_the_record_is_found() -> None:
    """R3."""
    assert (Rule.ONE_OUTCOME, "b") in found(
        told(lambda all_: all_.__setitem__(9, ("step.ended", "b", {"status": "failed"})))
    )


def test_an_attempt_that_is_not_newer_than_the_one_before_is_found() -> None:
    """R3."""
    again = ("step.started", "a", {"attempt": 1})
    assert (Rule.FENCES_GROW, "a") in found(told(lambda all_: all_.__setitem__(6, again)))


def test_an_outcome_of_an_attempt_that_nobody_started_is_found() -> None:
    """R3."""
    assert found(replace(GOOD, fences=GOOD.fences | {StepId("b"): Fence("1.7")})) == [(Rule.FENCES_GROW, "b")]


@pytest.mark.parametrize(
    ("policy", "needs", "early"),
    [
        (All(), ("succeeded", "succeeded"), False),
        (All(), ("succeeded", "failed"), True),
        (All(), ("succeeded", None), True),
        (AnyOf(), ("succeeded", None), False),
        (AnyOf(), ("failed", None), True),
        (Quorum(k=2), ("succeeded", "succeeded"), False),
        (Quorum(k=2), ("succeeded", "failed"), True),
        (Settled(), ("failed", "skipped"), False),
        (Settled(), ("succeeded", None), True),
        (BestEffort(within=2.0), ("succeeded", None), False),
        (BestEffort(within=60.0), ("succeeded", None), True),
    ],
)
def test_a_step_that_started_before_its_needs_had_ended_is_found(
    policy: JoinPolicy, needs: tuple[str | None, str | None], early: bool
) -> None:
    """R17: as its join policy says."""
    ended: list[Told] = [("step.ended", n, {"status": s}) for n, s in zip("xy", needs, strict=True) if s]
    run = replace(
        GOOD,
        steps={StepId("z"): step("z", "x", "y", join=policy)},
        outcomes={},
        fences={},
        events=events(
            ("run.accepted", "", {}),
            *((("step.added", name, {})) for name in "xyz"),
            *ended,
            ("step.started", "z", {"attempt": 1}),
            ("step.ended", "z", {"status": "succeeded"}),
            PLAIN[-1],
        ),
    )
    assert [rule for rule, name in found(run) if name == "z"] == [Rule.NEEDS_FIRST] * early


def test_a_joiner_or_a_further_planner_that_started_early_is_found() -> None:
    """R16."""
    assert (Rule.NEEDS_FIRST, "join.1") in found(told(lambda all_: all_.insert(8, all_.pop(10))))
    assert (Rule.NEEDS_FIRST, "plan.2") in found(
        told(lambda all_: all_.insert(10, ("step.started", "plan.2", {"attempt": 1})))
    )


def test_a_joiner_that_was_lost_behind_its_word_for_a_further_plan_may_start_again() -> None:
    """R16: the planner that it asked for waits for it."""
    added: tuple[Told, ...] = (("step.added", "plan.2", {}), ("step.started", "join.1", {"attempt": 2}))
    assert (Rule.NEEDS_FIRST, "join.1") not in found(told(lambda all_: all_.__setitem__(slice(11, 11), added)))


def test_a_gap_a_number_that_goes_back_and_an_epoch_without_a_beginning_are_found() -> None:
    """R34."""
    whole = events(*PLAIN)
    assert (Rule.NO_GAP, "a") in found(replace(GOOD, events=whole[:5] + whole[6:]))
    assert (Rule.NO_GAP, "b") in found(replace(GOOD, events=whole[:8] + events(*PLAIN[8:], epoch=2, first=8)))
    assert (Rule.NO_GAP, "") in found(replace(GOOD, events=(*whole, whole[0].model_copy(update={"id": "0-1"}))))


def test_an_event_behind_the_end_is_found() -> None:
    """R34."""
    assert (Rule.NOTHING_AFTER_END, "b") in found(told(lambda all_: all_.append(("step.parked", "b", {}))))


@pytest.mark.parametrize("budget", [Budget(tokens=9), Budget(money=0.4)])
def test_spending_beyond_the_budget_is_found(budget: Budget) -> None:
    """R25."""
    over = goal(goal=Goal(objective="try", budget=budget))
    assert found(replace(GOOD, goal=over)) == [(Rule.WITHIN_BUDGET, "")]


def test_usage_that_does_not_add_up_is_found() -> None:
    """R26: of the goal, and of a step."""
    assert found(replace(GOOD, goal=goal(usage=Usage()))) == [(Rule.USAGE_ADDS_UP, "")]
    more = DONE.model_copy(update={"usage": USED})
    assert found(replace(GOOD, outcomes=GOOD.outcomes | {StepId("b"): more})) == [(Rule.USAGE_ADDS_UP, "b")]


def test_a_call_that_was_closed_behind_the_end_may_be_counted_or_not() -> None:
    """R26: its attempt had lost its lease."""
    late = replace(GOOD, closed=(Closed(USED, ENDED + timedelta(seconds=1)),))
    assert found(late) == []
    assert found(replace(late, goal=goal(usage=Usage()))) == []


def test_a_call_that_was_made_more_often_than_the_ledger_knows_is_found() -> None:
    """R1, R8: after its row was done."""
    assert found(GOOD, asked={"r1:a:0": 2}) == [(Rule.NO_CALL_AGAIN, "a")]
    counted = replace(GOOD, calls=(call(reissues=1),))
    assert found(counted, asked={"r1:a:0": 2}) == []


@pytest.mark.parametrize("written", ['pass"word', 'pass\\"word'])
def test_a_secret_in_any_sink_is_found(written: str) -> None:
    """R38: on record, in an event, in a log; as it is, or as JSON writes it."""
    secrets = {"token": 'pass"word', "tiny": "is"}
    on_record = replace(GOOD, texts=(Text("calls", StepId("a"), f"it is {written}"),))
    assert found(on_record, secrets=secrets) == [(Rule.NO_SECRET, "a")]
    in_event = told(lambda all_: all_.__setitem__(5, ("step.lost", "a", {"why": secrets["token"]})))
    assert (Rule.NO_SECRET, "a") in found(in_event, secrets=secrets)
    assert found(GOOD, secrets=secrets, texts={"worker.log": written}) == [(Rule.NO_SECRET, "")]


def test_a_finding_reads_as_a_sentence_with_its_place() -> None:
    shown = str(Finding(rule=Rule.NO_GAP, run=RUN, step=StepId("a"), evidence="event 1-6 follows 1-4"))
    assert shown == "no_gap: run r1 step a: event 1-6 follows 1-4"
