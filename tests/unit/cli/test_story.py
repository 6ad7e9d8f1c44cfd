"""Events in words, a line each."""

from fleet.cli.story import sentence_of
from fleet.cli.view import RunView
from fleet.core.events import Event, EventType
from fleet.core.value import Json


def told(*events: tuple[EventType, str, dict[str, Json]], remarks: dict[str, str] | None = None) -> list[str]:
    view, lines = RunView(remarks=remarks or {}), []
    for number, (kind, step, data) in enumerate(events):
        event = Event(id=f"1-{number}", type=kind, at=1_700_000_000.0 + number / 2, step=step, data=data)
        view = view.hear(event)
        lines.append(" ".join(sentence_of(event, view).split()))
    return lines


def test_a_run_reads_as_a_story() -> None:
    lines = told(
        (EventType.ACCEPTED, "", {}),
        (EventType.STEP_ADDED, "plan.1", {"tool": "plan", "call": "plan", "needs": []}),
        (EventType.STEP_STARTED, "plan.1", {"worker": "w1.77", "attempt": 1}),
        (EventType.STEP_ADDED, "2", {"tool": "calc", "call": 'calc("$1 * 2")', "needs": ["1"]}),
        (EventType.STEP_STARTED, "2", {"worker": "w2.78", "attempt": 1}),
        (EventType.STEP_ENDED, "2", {"status": "succeeded", "seconds": 1.25}),
        (EventType.PLANNED, "plan.1", {"version": 1, "steps": 1}),
        (EventType.STEP_ENDED, "plan.1", {"status": "succeeded", "seconds": 0.0}),
        (EventType.ENDED, "", {"status": "succeeded", "reason": "finished"}),
        remarks={"plan": "recorded turn"},
    )
    assert lines == [
        "0.0 s the goal is accepted",
        "0.5 s plan.1 the planner is to come",
        "1.0 s plan.1 planner started on w1 (recorded turn)",
        '1.5 s 2 planned: calc("$1 * 2"), which needs 1',
        "2.0 s 2 calc started on w2",
        "2.5 s 2 calc succeeded after 1.2 s",
        "3.0 s plan.1 plan 1 is complete: 1 steps",
        "3.5 s plan.1 planner succeeded after 2.5 s",
        "4.0 s the goal succeeded",
    ]


def test_what_goes_wrong_is_said_with_its_reason() -> None:
    lines = told(
        (EventType.STEP_STARTED, "1", {"worker": "w1.77", "attempt": 1}),
        (EventType.STEP_PARKED, "1", {"reason": "breaker open", "seconds": 2.0}),
        (EventType.STEP_LOST, "1", {}),
        (EventType.STEP_STARTED, "1", {"worker": "w2.78", "attempt": 2}),
        (EventType.STEP_ENDED, "1", {"status": "failed", "type": "not_found", "message": "no\nsuch \x1b[2Jpage"}),
        (EventType.ASKED, "join.1", {"question": "which year?"}),
        (EventType.ANSWERED, "join.1", {}),
        (EventType.CANCEL_ASKED, "", {}),
        (EventType.REBUILT, "", {}),
        (EventType.ENDED, "", {"status": "failed", "reason": "steps_failed"}),
    )
    assert [line.partition(" s ")[2] for line in lines] == [
        "1 step started on w1",
        "1 step waits 2.0 s: breaker open",
        "1 step lost its worker, and is given to another",
        "1 step started on w2 (attempt 2)",
        "1 step failed: not_found: no such [2Jpage",
        "join.1 the goal asks: which year?",
        "join.1 the goal has its answer and goes on",
        "the goal is being cancelled",
        "the run was rebuilt from the record",
        "the goal failed: steps_failed",
    ]


def test_every_kind_of_event_has_words_and_none_is_long() -> None:
    for kind in EventType:
        line = told((kind, "1", {"call": "x" * 5000, "tool": "t", "question": "y" * 5000}))[0]
        assert len(line) <= 200
        assert kind.value not in line
