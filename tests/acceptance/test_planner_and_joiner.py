"""A planner writes the DAG, a joiner looks at what came out: finish, replan, ask, and what goes wrong."""

import pytest

from fleet.client import Fleet
from fleet.core.goal import Goal
from fleet.core.run import End, EndReason, RunStatus
from tests.acceptance import script
from tests.acceptance.conftest import WAIT, states, until


def pursue(client: Fleet, objective: str) -> tuple[str, End]:
    handle = client.submit(Goal(objective=objective))
    return handle.goal_id, client.result(handle.goal_id, WAIT)


def test_a_goal_is_planned_run_in_parallel_and_joined(client: Fleet) -> None:
    goal_id, end = pursue(client, script.COMPARE)
    assert (end.status, end.answer) == (RunStatus.SUCCEEDED, "8")
    status = client.status(goal_id)
    assert {step.id for step in status.steps} == {"plan.1", "join.1", "1", "2", "3"}
    assert status.usage.calls == 2


def test_a_replan_keeps_finished_steps_and_goes_on_with_their_ids(client: Fleet) -> None:
    """R15, R18: step 1 is not run again (5 is the same call), 6 refers to it, and no error became a value."""
    goal_id, end = pursue(client, script.REPLAN)
    assert (end.status, end.answer) == (RunStatus.SUCCEEDED, "4 letters")
    assert states(client, goal_id) == {"1": "succeeded", "2": "failed", "3": "skipped", "6": "succeeded"}
    assert client.status(goal_id).versions == 2


def test_a_planner_that_writes_rubbish_ends_in_a_typed_failure_that_shows_it(client: Fleet) -> None:
    """R11: one repair round, then the end; nothing was started."""
    goal_id, end = pursue(client, script.RUBBISH)
    assert (end.status, end.reason) == (RunStatus.FAILED, EndReason.PLAN_REJECTED)
    assert "I would rather sing than plan." in end.detail
    assert states(client, goal_id) == {}


def test_a_refused_plan_is_repaired_once(client: Fleet) -> None:
    """R11, R30: the planner is told which tool does not exist, and mends it."""
    goal_id, end = pursue(client, script.REPAIR)
    assert (end.status, end.answer) == (RunStatus.SUCCEEDED, "mended")
    assert states(client, goal_id) == {"1": "succeeded"}


def test_brackets_and_newlines_in_an_answer_survive(client: Fleet) -> None:
    """R19."""
    assert pursue(client, script.BRACKETS)[1].answer == "Star Wars (1977),\nby George Lucas (USA)"


def test_a_verdict_that_cannot_be_read_is_asked_again_once_and_then_a_typed_failure(client: Fleet) -> None:
    """R19."""
    goal_id, end = pursue(client, script.MUMBLE)
    assert (end.status, end.reason) == (RunStatus.FAILED, EndReason.JOINER_FAILED)
    assert "Hm." in end.detail
    assert end.answer == {"1": "x"}
    assert client.status(goal_id).usage.calls == 3


def test_a_joiner_can_ask_a_person_and_goes_on_with_the_answer(client: Fleet) -> None:
    goal_id = client.submit(Goal(objective=script.ASKING)).goal_id
    until(lambda: client.status(goal_id).status is RunStatus.ASKING)
    assert client.status(goal_id).question == "Which colour?"
    client.answer(goal_id, "blue", by="a person")
    assert client.result(goal_id, WAIT).answer == "painted blue"


def test_the_same_plan_twice_is_no_progress(client: Fleet) -> None:
    """R14: the end names its reason and carries the best partial result."""
    _, end = pursue(client, script.AGAIN)
    assert (end.status, end.reason, end.answer) == (RunStatus.FAILED, EndReason.NO_PROGRESS, {"1": "same"})


def test_replans_are_capped(client: Fleet) -> None:
    """R14."""
    goal_id, end = pursue(client, script.ENDLESS)
    assert (end.status, end.reason) == (RunStatus.FAILED, EndReason.TOO_MANY_REPLANS)
    assert client.status(goal_id).versions == 4
    assert end.answer == {"10": "part 1", "20": "part 2", "30": "part 3", "40": "part 4"}


def test_a_plan_with_too_many_steps_is_refused_with_the_limit(client: Fleet) -> None:
    """R20: one turn asks for 800 calls."""
    _, end = pursue(client, script.MANY)
    assert (end.status, end.reason) == (RunStatus.FAILED, EndReason.TOO_MANY_STEPS)
    assert "500" in end.detail


def test_a_planner_that_dies_mid_stream_is_retried_and_keeps_what_finished(client: Fleet) -> None:
    """R13: the steps it had written ran; after bounded retries the run ends with them as its partial answer."""
    goal_id, end = pursue(client, script.MIDSTREAM)
    assert (end.status, end.reason) == (RunStatus.FAILED, EndReason.PLANNER_FAILED)
    assert "the stream broke" in end.detail
    assert states(client, goal_id) == {"1": "succeeded", "2": "succeeded"}


@pytest.mark.parametrize("objective", ["", "   "])
def test_a_goal_needs_an_objective(objective: str) -> None:
    with pytest.raises(ValueError, match=r"objective|at least 1"):
        Goal(objective=objective)
