"""Events, epochs, dead letters and answers."""

import threading
from datetime import timedelta

import pytest

from fleet.core.events import Event, EventType
from fleet.core.ids import RunId, StepId, WorkerId
from fleet.errors import BadInput
from fleet.store.sql import dead
from fleet.store.sql.dead import Wanted

A, B = StepId("a"), StepId("b")


def event(name: str, **data: object) -> Event:
    return Event(id=name, type=EventType.STEP_ENDED, at=1.5, step="1", data=data)


def test_events_are_read_in_the_order_of_epoch_and_number(record, run):
    """R34."""
    kept = [event("1-2", text="naïve"), event("1-10"), event("2-1", rows=[None])]
    record.events.store(run, kept[::-1])
    assert record.events.read(run) == kept
    assert record.events.read(run, after="1-2") == kept[1:]
    assert record.events.read(run, after="1-2", limit=1) == kept[1:2]
    assert record.events.read(run, after="2-1") == []
    assert record.events.last(run) == "2-1"


def test_events_stored_twice_are_kept_once(record, run):
    """R34."""
    assert record.events.last(run) == ""
    record.events.store(run, [event("1-1")])
    record.events.store(run, [event("1-1", other=1), event("1-2")])
    record.events.store(run, [])
    assert record.events.read(run) == [event("1-1"), event("1-2")]


def test_an_event_without_a_place_is_refused(record, run):
    with pytest.raises(ValueError, match="invalid literal"):
        record.events.store(run, [event("first")])


def test_the_first_epoch_is_one(record):
    assert record.epochs.current() == 1
    assert record.epochs.current() == 1


def test_an_epoch_is_raised_once_by_all_who_saw_the_same(record):
    """R8: two schedulers that find Redis behind raise the epoch once."""
    seen, answers = record.epochs.current(), []
    threads = [threading.Thread(target=lambda: answers.append(record.epochs.raise_to(seen))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [2] * 8
    assert record.epochs.raise_to(7) == 2
    assert record.epochs.current() == 2


def test_a_beat_is_never_replaced_by_an_older_one(record):
    """R8."""
    assert record.epochs.last_beat() is None
    assert record.epochs.current() == 1
    assert record.epochs.last_beat() is None
    first = record.epochs.beat(1, 5)
    assert (first.epoch, first.n) == (1, 5)
    assert record.epochs.beat(1, 4) == first
    second = record.epochs.beat(2, 1)
    assert (second.epoch, second.n) == (2, 1)
    assert record.epochs.beat(1, 9) == second == record.epochs.last_beat()
    assert second.at >= first.at


def test_a_dead_letter_keeps_its_cause(record, run):
    """R10."""
    record.dead.put(run, A, "killed by signal 9 \x00 \ud800", 3, WorkerId("w1"))
    letter = record.dead.get(run, A)
    assert (letter.cause, letter.losses, letter.worker) == ("killed by signal 9 \\x00 \\ud800", 3, "w1")
    assert letter.replayed is None
    assert record.dead.get(run, B) is None
    assert letter.id == f"{run}:{A}"
    assert letter.goal_id == record.goals.of_run(run).goal_id
    assert record.dead.list() == record.dead.list(Wanted(run=run)) == [letter]


def test_a_replayed_letter_is_listed_only_when_asked_for(record, run):
    """R10."""
    record.dead.put(run, A, "x", 3, WorkerId("w1"))
    record.dead.put(run, B, "x", 3, WorkerId("w1"))
    mark = record.dead.take(run, A)
    record.dead.settle(run, A, mark, RunId("r2"))
    letter = record.dead.get(run, A)
    assert (letter.replay, letter.replayed is not None) == ("r2", True)
    assert [letter.step_id for letter in record.dead.list(Wanted(run=run))] == [B]
    assert [letter.step_id for letter in record.dead.list(Wanted(run=run), replayed=True)] == [A, B]
    assert [letter.step_id for letter in record.dead.list(replayed=True, after=(run, A))] == [B]


def test_a_letter_is_replayed_by_one_at_a_time_and_once(record, run, monkeypatch):
    """R10: who asks second is refused, unless the first died over it, or its replay came to nothing."""
    record.dead.put(run, A, "x", 3, WorkerId("w1"))
    assert record.dead.take(run, StepId("none")) is None
    first = record.dead.take(run, A)
    assert record.dead.get(run, A).replay is None
    assert record.dead.take(run, A) is None
    record.dead.settle(run, A, first, None)
    second = record.dead.take(run, A)
    monkeypatch.setattr(dead, "_A_WHILE", timedelta(seconds=-1))
    third = record.dead.take(run, A)
    record.dead.settle(run, A, second, RunId("r2"))
    record.dead.settle(run, A, third, RunId("r3"))
    assert record.dead.get(run, A).replay == "r3"
    assert record.dead.take(run, A) is None


def test_letters_are_found_by_what_they_are_about(record, run):
    """R10."""
    record.dead.put(run, A, "it took 3 workers down; 100%", 3, WorkerId("w1"), tool="crash")
    record.dead.put(run, B, "it hung", 3, WorkerId("w1"), tool="hang")
    goal, died = record.goals.of_run(run).goal_id, record.dead.get(run, A).died
    later = died + timedelta(hours=1)
    both = [Wanted(), Wanted(goal=goal, tenant="default"), Wanted(since=died), Wanted(cause="IT")]
    assert [len(record.dead.list(wanted)) for wanted in both] == [2] * 4
    one = [Wanted(tool="crash"), Wanted(cause="Workers"), Wanted(cause="0%"), Wanted(tool="crash", cause="down")]
    assert [[each.step_id for each in record.dead.list(wanted)] for wanted in one] == [[A]] * 4
    none = [
        Wanted(tool="crash", cause="hung"),
        Wanted(since=later),
        Wanted(tenant="x"),
        Wanted(goal="x"),
        Wanted(cause="%i"),
    ]
    assert [record.dead.list(wanted) for wanted in none] == [[]] * 5


def test_a_step_that_dies_again_has_a_letter_again(record, run):
    """R10."""
    record.dead.put(run, A, "first", 3, WorkerId("w1"))
    record.dead.settle(run, A, record.dead.take(run, A), RunId("r2"))
    record.dead.put(run, A, "second", 6, WorkerId("w2"))
    (letter,) = record.dead.list(Wanted(run=run))
    assert (letter.cause, letter.losses, letter.worker, letter.replayed) == ("second", 6, "w2", None)


def test_a_question_is_answered_once(record, run):
    """R21."""
    asked = record.answers.ask(run, A, "which one?")
    assert record.answers.ask(run, A, "another?") == asked
    assert record.answers.open(run) == [asked]
    assert record.answers.answer(run, A, "the first", "person-1")
    assert not record.answers.answer(run, A, "the second", "person-2")
    answered = record.answers.of(run, A)
    assert (answered.question, answered.answer, answered.by) == ("which one?", "the first", "person-1")
    assert answered.answered >= asked.asked
    assert record.answers.open(run) == []


def test_questions_of_one_run_are_independent(record, run):
    """R21."""
    for step in (A, B):
        record.answers.ask(run, step, "?")
    record.answers.answer(run, A, "yes", "me")
    assert [question.step_id for question in record.answers.open(run)] == [B]
    assert record.answers.of(run, StepId("none")) is None
    with pytest.raises(BadInput, match="asked no question"):
        record.answers.answer(run, StepId("none"), "yes", "me")
