"""What a worker holds, as another process sees it: every note whole or not at all."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from fleet._apps.tasks.board import HEADER, ROOM, SIZE, Board, Note

from fleet.core.attempt import Attempt
from fleet.core.ids import Fence, RunId, StepId
from fleet.core.plan import Step
from fleet.core.run import RunContext
from fleet.engine.holding import Holding

LONGEST = Note("r" * 27, "s" * 64, f"{2**63}.{2**31}", "l" * 64)


@pytest.fixture
def board() -> Iterator[Board]:
    board = Board.make(64)
    yield board
    board.close()


def an_attempt(step: str, lane: str = "main") -> Attempt:
    context = RunContext(run=RunId("r1"), goal="g1", tenant="default")
    return Attempt(context=context, step=Step(id=StepId(step), tool="act", lane=lane), fence=Fence("1.1"), number=1)


def test_what_is_noted_is_seen_until_it_is_wiped(board: Board) -> None:
    place = board.put("r1", "a", "1.1", "main")
    other = board.put("r1", "b", "1.2", "gpu")
    assert place is not None
    assert other is not None
    assert set(board.notes()) == {Note("r1", "a", "1.1", "main"), Note("r1", "b", "1.2", "gpu")}
    board.wipe(place)
    assert board.notes() == [Note("r1", "b", "1.2", "gpu")]


def test_another_process_sees_the_notes(board: Board) -> None:
    board.put("r1", "a", "1.1", "main")
    board.tick(stopping=True)
    read = (
        "from fleet._apps.tasks.board import Board\nimport sys\n"
        "board = Board(int(sys.argv[1]), 64)\nprint(board.notes()[0].step, *board.ticks())"
    )
    done = subprocess.run(
        [sys.executable, "-c", read, str(board.fd)], pass_fds=(board.fd,), capture_output=True, text=True, check=True
    )
    assert done.stdout == "a 1 True\n"


def test_the_longest_ids_that_a_plan_may_have_fit(board: Board) -> None:
    """R5: what did not fit would be renewed by a thread, which a step can starve."""
    assert board.put(*LONGEST) is not None
    assert board.notes() == [LONGEST]


def test_a_step_for_which_there_is_no_room_is_told_apart_and_held_all_the_same() -> None:
    """R5: an id of any length, and more steps than places; letters of more than one byte."""
    board = Board.make(1)
    holding = Holding(board)
    long = holding.add(an_attempt("a", lane="l" * ROOM))
    wide = holding.add(an_attempt("ä" * (ROOM // 2)))
    first, second = holding.add(an_attempt("b")), holding.add(an_attempt("c"))
    assert [note.step for note in board.notes()] == ["b"]
    assert [held.step for held in holding.unnoted()] == ["a", "ä" * (ROOM // 2), "c"]
    for hold in (first, second, long, wide):
        holding.remove(hold)
    assert (holding.held(), board.notes()) == ([], [])
    holding.add(an_attempt("d"))
    assert ([note.step for note in board.notes()], holding.unnoted()) == (["d"], [])
    board.close()


def test_a_note_that_is_half_written_is_no_note(board: Board) -> None:
    """A writer that is stopped in the middle of its copy: neither the old note nor a mixture is believed."""
    place = board.put("r1", "a", "1.1", "main")
    assert place is not None
    start = HEADER + place * SIZE
    memory = board._memory
    whole = memory[start : start + SIZE]
    for cut in range(1, 6 + len("r1 a 1.1 main")):
        memory[start : start + SIZE] = b"\xa5" * cut + whole[cut:]
        assert board.notes() == []
    memory[start : start + SIZE] = whole
    assert board.notes() == [Note("r1", "a", "1.1", "main")]


WRITE = """
import sys, threading
from fleet._apps.tasks.board import Board
board = Board(int(sys.argv[1]), 8)
def write(name):
    for number in range(int(sys.argv[2])):
        place = board.put(name * (number % 50 + 1), f"{name}{number}", f"1.{number}", name)
        if place is not None:
            board.wipe(place)
threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_no_note_is_torn_that_is_read_while_threads_of_another_process_write() -> None:
    """Every note that is ever seen is one that was written, whatever the moment."""
    board = Board.make(8)
    writer = subprocess.Popen([sys.executable, "-c", WRITE, str(board.fd), "50000"], pass_fds=(board.fd,))
    seen: set[Note] = set()
    while writer.poll() is None:
        seen.update(board.notes())
    assert writer.returncode == 0
    assert len(seen) > 100
    for note in seen:
        name, number = note.lane, int(note.fence[2:])
        assert note == Note(name * (number % 50 + 1), f"{name}{number}", f"1.{number}", name)
    assert board.notes() == []
    board.close()


def test_ticks_differ_and_say_whether_the_worker_stops(board: Board) -> None:
    seen = {board.ticks()}
    for stopping in (False, False, True):
        board.tick(stopping=stopping)
        seen.add(board.ticks())
    assert len(seen) == 4
    assert board.ticks()[1] is True
