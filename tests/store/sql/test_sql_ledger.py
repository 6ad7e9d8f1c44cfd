"""The ledger: a call is written ahead, closed once, and its money is counted."""

import pytest

from fleet.core.budget import Usage
from fleet.core.ids import StepId
from fleet.core.outcome import Failure
from fleet.core.run import End, EndReason, RunStatus
from fleet.store.sql.ledger import CallKey

RESERVED = Usage(calls=1, input_tokens=100, output_tokens=50, money=0.5)
USED = Usage(calls=1, input_tokens=90, output_tokens=10, money=0.25)
REFUSED = Failure(type="timeout", message="too slow")
ENDED = End(status=RunStatus.FAILED, reason=EndReason.STEPS_FAILED)


@pytest.fixture
def key(run) -> CallKey:
    return CallKey(run, StepId("1"), 0)


def opened(record, key):
    return record.ledger.open(key, "model", "gpt", RESERVED, f"{key.run}/{key.step}", "hash")


def test_a_call_is_opened_once(record, key):
    """R1: a second attempt finds what the first one opened."""
    row = opened(record, key)
    assert (row.state, row.fresh, row.attempts, row.reservation) == ("open", True, 1, RESERVED)
    again = opened(record, key)
    assert not again.fresh
    assert again == row.model_copy(update={"fresh": False})
    assert record.ledger.rows(key.run) == [again]


def test_a_done_call_is_answered_from_the_ledger(record, key):
    """R1."""
    opened(record, key)
    done = record.ledger.done(key, {"text": "naïve", "n": [None, 1.5]}, USED)
    assert (done.state, done.response, done.usage) == ("done", {"text": "naïve", "n": [None, 1.5]}, USED)
    assert opened(record, key) == done


def test_a_done_call_never_changes(record, key):
    """R1, R3: neither by a late answer nor by a late failure."""
    opened(record, key)
    done = record.ledger.done(key, None, USED)
    assert record.ledger.done(key, "other", USED) == done
    assert record.ledger.failed(key, REFUSED, USED) == done
    assert record.ledger.reopen(key) == done
    assert record.ledger.reissue(key) == 0
    assert record.ledger.rows(key.run) == [done]
    assert record.ledger.usage(key.run) == USED


def test_a_failed_call_is_tried_again_and_both_tries_are_paid_for(record, key):
    """R26."""
    opened(record, key)
    failed = record.ledger.failed(key, REFUSED, USED)
    assert (failed.state, failed.failure, failed.fresh) == ("failed", REFUSED, False)
    again = record.ledger.reopen(key)
    assert (again.state, again.attempts, again.fresh) == ("open", 2, True)
    assert not record.ledger.reopen(key).fresh
    assert record.ledger.usage(key.run) == USED
    done = record.ledger.done(key, "yes", USED)
    assert (done.response, done.failure, done.attempts, done.usage) == ("yes", None, 2, USED + USED)


def test_an_answer_that_comes_after_a_failure_was_noted_is_kept(record, key):
    """R1: it was paid for."""
    opened(record, key)
    record.ledger.failed(key, REFUSED, Usage())
    assert record.ledger.done(key, "late", USED).state == "done"


def test_calls_issued_again_are_counted_and_listed(record, key):
    """R8."""
    other = key._replace(ordinal=1)
    opened(record, key)
    opened(record, other)
    assert record.ledger.reissued() == []
    assert [record.ledger.reissue(key), record.ledger.reissue(key)] == [1, 2]
    listed = record.ledger.reissued()
    assert [(row.key, row.reissues) for row in listed] == [(key, 2)]
    assert record.ledger.reissued(key.run) == listed
    assert record.ledger.reissued("other") == []


def test_usage_adds_up_over_steps_and_failures(record, key):
    """R26: steps add up to the run exactly."""
    assert record.ledger.usage(key.run) == Usage()
    for ordinal in range(4):
        opened(record, key._replace(ordinal=ordinal))
    record.ledger.done(key, "a", USED)
    record.ledger.failed(key._replace(ordinal=1), REFUSED, USED)
    record.ledger.done(key._replace(ordinal=2), "b", USED)
    assert record.ledger.usage(key.run) == USED + USED + USED
    assert [row.state for row in record.ledger.rows(key.run)] == ["done", "failed", "done", "open"]


def test_a_call_that_was_not_written_ahead_can_not_be_closed(record, key):
    for change in (
        lambda: record.ledger.done(key, 1, USED),
        lambda: record.ledger.failed(key, REFUSED, USED),
        lambda: record.ledger.reopen(key),
        lambda: record.ledger.reissue(key),
    ):
        with pytest.raises(KeyError):
            change()


def test_calls_left_open_in_a_run_that_ended_are_closed_and_count_as_made(record, key):
    """R25, R26: no reservation stands for ever, and the run's usage still is what its calls add up to."""
    others = [key._replace(ordinal=n) for n in (1, 2)]
    for each in (key, *others):
        opened(record, each)
    record.ledger.done(key, "a", USED)
    assert record.ledger.close_abandoned(0.0) == 0, "the run is open"
    record.goals.end(key.run, ENDED, record.ledger.usage(key.run))
    assert record.ledger.close_abandoned(60.0) == 0, "an attempt may close it itself yet"
    assert [record.ledger.close_abandoned(0.0, limit=1) for _ in range(3)] == [1, 1, 0]
    rows = record.ledger.rows(key.run)
    assert [(row.state, row.usage.calls) for row in rows] == [("done", 1), ("failed", 1), ("failed", 1)]
    assert [row.failure.type for row in rows if row.failure] == ["abandoned", "abandoned"]
    assert record.goals.of_run(key.run).usage == record.ledger.usage(key.run) == USED + Usage(calls=2)


def test_calls_issued_again_are_listed_for_a_goal(record, key):
    """R8."""
    opened(record, key)
    record.ledger.reissue(key)
    goal = record.goals.of_run(key.run).goal_id
    assert record.ledger.reissued_for(goal) == record.ledger.reissued(key.run)
    assert record.ledger.reissued_for("other") == []
