"""The journal: one outcome a step, and it stands."""

import threading

import pytest
from sqlalchemy.exc import IntegrityError

from fleet.core.budget import Usage
from fleet.core.ids import Fence, StepId
from fleet.core.outcome import Artifact, Failure, FailureClass, Outcome, Status
from fleet.store.sql.outcomes import Ended

A, B = StepId("a"), StepId("b")
ONE, TWO = Fence("1.1"), Fence("1.2")
GOOD = Outcome(status=Status.SUCCEEDED, value={"rows": [1, None, "naïve \x00"]}, usage=Usage(calls=1, money=0.1))
BAD = Outcome(
    status=Status.FAILED,
    failure=Failure(cls=FailureClass.TRANSIENT, type="timeout", message="too slow", retry_after=2.0),
    because=(A,),
    artifact=Artifact(ref="sha256:00", size=3),
    seconds=1.5,
    attempts=3,
)


def test_the_first_outcome_stands(record, run):
    """R3: a late attempt is told what stands."""
    assert record.outcomes.put(run, A, GOOD, ONE) == GOOD
    assert record.outcomes.put(run, A, BAD, TWO) == GOOD
    assert record.outcomes.get(run, A) == GOOD
    assert record.outcomes.get(run, B) is None
    assert record.outcomes.count(run) == 1


def test_outcomes_may_be_put_without_waiting(record, run):
    first = record.outcomes.put_soon(run, A, BAD, ONE)
    second = record.outcomes.put_soon(run, A, GOOD, TWO)
    assert (first.result(10), second.result(10)) == (BAD, BAD)


def test_many_are_put_at_once_beside_those_that_stand(record, run):
    record.outcomes.put(run, A, GOOD, ONE)
    record.outcomes.put_many_soon([Ended(run, A, BAD, TWO), Ended(run, B, BAD, TWO)]).result(10)
    record.outcomes.put_many_soon([]).result(10)
    assert dict(next(record.outcomes.pages(run))) == {A: GOOD, B: BAD}


def test_outcomes_are_read_in_pages(record, run):
    """R16: results of a large fan-in never stand in memory together."""
    ids = [StepId(f"s{n:04}") for n in range(1_050)]
    record.outcomes.put_many_soon([Ended(run, step, GOOD, ONE) for step in ids]).result(10)
    pages = list(record.outcomes.pages(run, 500))
    assert [len(page) for page in pages] == [500, 500, 50]
    assert [step for page in pages for step, _ in page] == ids
    assert [len(page) for page in record.outcomes.pages(run, 525)] == [525, 525]
    assert record.outcomes.count(run) == 1_050


def test_of_sixteen_threads_that_race_for_a_step_one_wins(record, run):
    """R3."""
    answers = []

    def put(n: int) -> None:
        mine = Outcome(status=Status.SUCCEEDED, value=n)
        answers.append(record.outcomes.put(run, A, mine, Fence(f"1.{n}")))

    threads = [threading.Thread(target=put, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 16
    assert set(map(repr, answers)) == {repr(record.outcomes.get(run, A))}


def test_an_outcome_needs_a_run(record):
    with pytest.raises(IntegrityError):
        record.outcomes.put("none", A, GOOD, ONE)
