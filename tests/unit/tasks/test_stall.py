"""When a worker's interpreter counts as held, and when it is given up."""

from fleet._apps.tasks.stall import Stall


def held(stall: Stall, seconds: int, *, unwanted: bool = False) -> Stall:
    for _ in range(seconds):
        stall.look(1, 1.0, unwanted=unwanted)
    return stall


def started() -> Stall:
    stall = Stall(limit=10.0)
    stall.look(1, 1.0, unwanted=False)
    return stall


def test_a_lock_that_is_held_while_no_step_is_late_is_waited_for() -> None:
    """R5: the step that holds it may end; nothing is lost meanwhile."""
    stall = held(started(), 1000)
    assert stall.seconds == 1000.0
    assert not stall.hopeless


def test_a_lock_that_is_held_past_a_deadline_is_given_up_after_the_limit() -> None:
    """R5: not at once: the step may have just ended."""
    stall = held(started(), 20)
    stall.deadline()
    assert not held(stall, 9).hopeless
    stall.deadline()
    assert held(stall, 1).hopeless


def test_a_step_that_was_late_before_the_lock_was_taken_is_no_reason() -> None:
    """R5: it does not hold the lock: the interpreter has run since."""
    stall = started()
    stall.deadline()
    stall.look(2, 1.0, unwanted=False)
    for _ in range(100):
        stall.look(2, 1.0, unwanted=False)
    assert not stall.hopeless


def test_a_worker_that_holds_nothing_that_is_wanted_is_given_up_after_the_limit() -> None:
    """R5: nothing can be lost by that."""
    assert not held(started(), 10, unwanted=True).hopeless
    assert held(started(), 11, unwanted=True).hopeless


def test_an_interpreter_that_runs_starts_the_count_again() -> None:
    stall = held(started(), 5, unwanted=True)
    stall.look(2, 1.0, unwanted=True)
    for _ in range(5):
        stall.look(2, 1.0, unwanted=True)
    assert not stall.hopeless
    assert stall.seconds == 5.0
