"""How events look: a table to a person, plain lines to a pipe."""

import pytest
from rich.console import Console

from fleet.cli.run import show
from fleet.cli.view import RunView, line_of, summary, table_of
from fleet.core.events import Event, EventType
from fleet.core.value import Json


def event(number: int, kind: EventType, step: str = "", /, **data: Json) -> Event:
    return Event(id=f"1-{number}", type=kind, at=1_700_000_000.0 + number, step=step, data=data)


STORY = [
    event(1, EventType.ACCEPTED),
    event(2, EventType.STEP_STARTED, "plan.1", worker="w1", attempt=1),
    event(3, EventType.STEP_ADDED, "1", tool="search", call='search("Everest")', needs=[]),
    event(4, EventType.STEP_STARTED, "1", worker="w1", attempt=1),
    event(5, EventType.STEP_ADDED, "2", tool="calc", call='calc("$1 * 2")', needs=["1"]),
    event(6, EventType.PLANNED, version=1, steps=2),
    event(7, EventType.STEP_ENDED, "1", status="succeeded", seconds=2.5),
    event(8, EventType.STEP_STARTED, "2", worker="w2", attempt=2),
    event(9, EventType.STEP_ENDED, "2", status="failed", seconds=0.1, type="misuse", message="not a number\nat all"),
]


def heard(events: list[Event]) -> RunView:
    view = RunView()
    for each in events:
        view = view.hear(each)
    return view


def rendered(view: RunView, now: float = 1_700_000_010.0, rows: int = 30) -> str:
    console = Console(width=140, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(table_of(view, now, rows))
    return captured.get()


def test_a_step_shows_before_the_plan_is_whole() -> None:
    view = heard(STORY[:4])
    assert list(view.steps) == ["plan.1", "1"]
    assert view.steps["1"].state == "running"
    assert view.versions == 0
    assert "planning" in summary(view)


def test_the_table_tells_state_seconds_and_what_went_wrong() -> None:
    text = rendered(heard(STORY))
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert 'search("Everest")' in lines["1"]
    assert "succeeded" in lines["1"]
    assert "2.5 s" in lines["1"]
    assert "failed" in lines["2"]
    assert "misuse: not a number at all" in lines["2"]
    assert "8.0 s" in lines["plan.1"]


def test_a_parked_a_lost_and_a_repeated_step_say_so() -> None:
    view = heard([*STORY[:4], event(10, EventType.STEP_PARKED, "1", reason="breaker open", until=0.0)])
    assert (view.steps["1"].state, view.steps["1"].note) == ("parked", "breaker open")
    view = view.hear(event(11, EventType.STEP_LOST, "1"))
    assert (view.steps["1"].state, view.steps["1"].note) == ("waiting", "its worker was lost")
    view = view.hear(event(12, EventType.STEP_STARTED, "1", worker="w2", attempt=2))
    assert (view.steps["1"].state, view.steps["1"].note) == ("running", "attempt 2")


def test_a_question_stands_until_it_is_answered_and_an_end_is_told() -> None:
    view = heard([*STORY, event(10, EventType.ASKED, question="which year?")])
    assert "asks: which year?" in summary(view)
    view = view.hear(event(11, EventType.ANSWERED))
    assert view.question == ""
    assert summary(view.hear(event(12, EventType.ENDED, status="failed", reason="steps_failed"))).endswith("failed")


def test_an_event_that_is_not_known_changes_nothing() -> None:
    view = heard(STORY)
    assert view.hear(event(20, EventType.REBUILT)) == view


def test_of_many_steps_those_that_move_are_shown() -> None:
    """R16"""
    added = [event(n, EventType.STEP_ADDED, str(n), tool="t", needs=[]) for n in range(1, 2001)]
    ended = [event(n, EventType.STEP_ENDED, str(n), status="succeeded", seconds=1) for n in range(1, 1500)]
    started = [event(n, EventType.STEP_STARTED, str(n), worker="w", attempt=1) for n in range(1990, 1995)]
    view = heard([*added, *ended, *started])
    text = rendered(view, rows=10)
    assert text.count("running") >= 5
    assert len(text.splitlines()) < 15
    assert "1499 succeeded" in summary(view)


def test_a_line_is_plain_and_carries_every_fact() -> None:
    line = line_of(STORY[8])
    assert "step.ended 2 status=failed seconds=0.1 type=misuse message=not a number at all" in line
    assert "\x1b" not in line_of(event(1, EventType.STEP_ENDED, "1", status="failed", message="\x1b[2Jgone"))


def test_long_values_are_cut_in_lines() -> None:
    assert len(line_of(event(1, EventType.STEP_ADDED, "1", call="x" * 5000))) < 300


def test_no_step_can_write_into_the_terminal_by_its_name_or_call() -> None:
    """R38"""
    view = heard([event(1, EventType.STEP_ADDED, "1", tool="t", call="[red]\x1b]0;owned\x07[/red]", needs=[])])
    text = rendered(view)
    assert "[red]" in text
    assert "\x1b" not in text


def test_a_pipe_gets_lines_and_no_live_view(capsys: pytest.CaptureFixture[str]) -> None:
    view = show(iter(STORY))
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == len(STORY)
    assert view == heard(STORY)


def test_a_step_shows_which_worker_ran_it_and_a_joiner_comes_last() -> None:
    joining = event(2, EventType.STEP_ADDED, "join.1", tool="join", call="join", needs=[])
    rows = [line.split() for line in rendered(heard([*STORY[:2], joining, *STORY[2:]])).splitlines() if line.strip()]
    assert [row[0] for row in rows[1:-1]] == ["plan.1", "1", "2", "join.1"]
    assert rows[-2][1] == "joiner"
    assert "w1" in rows[2]
    assert "w2" in rows[3]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_table_fits_its_terminal_and_keeps_states_and_times_legible(width: int) -> None:
    """R16"""
    long = "a message that goes on for much longer than any terminal is wide " * 3
    added = event(8, EventType.STEP_ADDED, "3", tool="search", call="search(" + "x" * 300 + ")", needs=["1", "2"])
    failed = event(9, EventType.STEP_ENDED, "3", status="failed", seconds=12.3, type="permanent", message=long)
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(table_of(heard([*STORY, added, failed]), 1_700_000_010.0))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    row = next(line for line in lines if line.startswith("3 "))
    assert "failed" in row
    assert "12.3 s" in row


def test_a_plan_by_hand_is_not_said_to_be_in_the_planning() -> None:
    assert summary(heard([STORY[2]])) == "1 waiting"
