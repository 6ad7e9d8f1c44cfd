"""The journal: one outcome a step, and it stands."""

import threading

import pytest
from sqlalchemy.exc import IntegrityError

from fleet.core.budget import Usage
from fleet.core.ids import Fence, RunId, StepId
from fleet.core.outcome import Artifact, Failure, FailureClass, Outcome, Status
from fleet.store.sql.rows import text_of

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


def test_outcomes_may_be_put_without_waiting_beside_those_that_stand(record, run, database):
    """R3: whoever comes second changes nothing."""
    record.outcomes.put(run, A, GOOD, ONE)
    for step in (A, B, B):
        record.outcomes.put_behind(run, step, text_of(BAD), TWO)
    settled(database)
    assert dict(next(record.outcomes.pages(run))) == {A: GOOD, B: BAD}


def test_an_outcome_that_can_not_be_kept_takes_no_other_with_it(record, run, database, caplog):
    record.outcomes.put_behind(run, A, text_of(GOOD), ONE)
    record.outcomes.put_behind(RunId("nobody's"), A, text_of(GOOD), ONE)
    record.outcomes.put_behind(run, B, text_of(GOOD), ONE)
    settled(database)
    assert dict(next(record.outcomes.pages(run))) == {A: GOOD, B: GOOD}
    assert "was not kept" in caplog.text


def settled(database):
    """Until all that was handed in before is on disk."""
    database.write_soon(lambda connection: None).result(10)


def test_outcomes_are_read_in_pages(record, run, database):
    """R16: results of a large fan-in never stand in memory together."""
    ids = [StepId(f"s{n:04}") for n in range(1_050)]
    for step in ids:
        record.outcomes.put_behind(run, step, text_of(GOOD), ONE)
    settled(database)
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
