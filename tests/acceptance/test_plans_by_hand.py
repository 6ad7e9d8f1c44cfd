"""A plan written by a person runs with no model at all."""

from pathlib import Path

from fleet.client import Fleet
from fleet.core.run import EndReason, RunStatus
from tests.acceptance.conftest import Planned, lines, run_plan, states


def test_a_plan_in_yaml_runs_and_gives_its_answer(client: Fleet, planned: Planned) -> None:
    goal_id, end = run_plan(
        client,
        planned,
        """
        goal: add up
        steps:
          a: {tool: calc, args: {expression: "1 + 2"}}
          b: {tool: calc, args: {expression: "$a * 10"}}
          c: {tool: noop, args: {value: {of: "${b}", text: "b is ${b}"}}}
        answer: {result: "$c", raw: "$b"}
        """,
    )
    assert end.status is RunStatus.SUCCEEDED
    assert end.answer == {"result": {"of": 30, "text": "b is 30"}, "raw": 30}
    assert set(states(client, goal_id).values()) == {"succeeded"}


def test_a_failed_step_ends_the_run_with_its_cause_and_the_partial_answer(client: Fleet, planned: Planned) -> None:
    """R17, R18: a failure is typed, and its text is never a value of a step that depends on it."""
    goal_id, end = run_plan(
        client,
        planned,
        """
        goal: fail
        steps:
          good: {tool: noop, args: {value: fine}}
          bad: {tool: broken, args: {message: secret recipe}}
          after: {tool: length, args: {text: "$bad"}}
          later: {tool: noop, needs: [after]}
        """,
    )
    assert (end.status, end.reason) == (RunStatus.FAILED, EndReason.STEPS_FAILED)
    assert end.answer == {"good": "fine"}
    assert "step bad: broken: secret recipe" in end.detail
    assert states(client, goal_id) == {"good": "succeeded", "bad": "failed", "after": "skipped", "later": "skipped"}


def test_text_of_a_tool_is_never_searched_for_references(client: Fleet, planned: Planned) -> None:
    """R12: dollar amounts in a value are text, and so is `$5 million` in a plan."""
    _, end = run_plan(
        client,
        planned,
        """
        goal: prices
        steps:
          "1": {tool: fetch_price}
          "2": {tool: noop, args: {value: "$1"}}
          "3": {tool: noop, args: {value: "about $5 million: ${2}"}}
        """,
    )
    text = "It costs $5 million, or $1.5 a piece; ${1} and $2 are not references."
    assert end.answer == f"about $5 million: {text}"


def test_join_policies_see_failures_and_go_on(client: Fleet, planned: Planned) -> None:
    """R17: all, any, quorum and settled, with a failing need."""
    goal_id, _ = run_plan(
        client,
        planned,
        """
        goal: joins
        steps:
          a: {tool: noop, args: {value: 1}}
          b: {tool: broken}
          c: {tool: noop, args: {value: 3}}
          all: {tool: noop, needs: [a, b, c]}
          any: {tool: noop, needs: [a, b, c], join: any}
          two: {tool: noop, needs: [a, b, c], join: {quorum: 2}}
          three: {tool: noop, needs: [a, b, c], join: {quorum: 3}}
          end: {tool: noop, needs: [a, b, c], join: settled}
        """,
    )
    found = states(client, goal_id)
    assert {k: found[k] for k in ("all", "any", "two", "three", "end")} == {
        "all": "skipped",
        "any": "succeeded",
        "two": "succeeded",
        "three": "skipped",
        "end": "succeeded",
    }


def test_three_of_a_thousand_fail_and_the_rest_is_there(client: Fleet, planned: Planned) -> None:
    """R16, R17: a wide plan with a few failures is joined once."""
    kinds = {
        i: f"broken, args: {{message: no {i}}}" if i % 400 == 1 else f"noop, args: {{value: {i}}}" for i in range(1000)
    }
    steps = [f"  s{i}: {{tool: {kind}}}" for i, kind in kinds.items()]
    needs = ", ".join(f"s{i}" for i in kinds)
    steps.append(f"  end: {{tool: noop, args: {{value: done}}, join: settled, needs: [{needs}]}}")
    goal = "goal: {objective: wide, budget: {steps: 2000}}\nsteps:\n"
    goal_id, end = run_plan(client, planned, goal + "\n".join(steps))
    assert end.answer == "done"
    found = states(client, goal_id)
    assert sum(state == "failed" for state in found.values()) == 3
    assert sum(state == "succeeded" for state in found.values()) == 998


def test_a_transient_failure_is_retried_with_backoff(client: Fleet, planned: Planned, tmp_path: Path) -> None:
    """R30: the engine deals with transient errors."""
    path = tmp_path / "tries"
    _, end = run_plan(
        client, planned, f"goal: retry\nsteps:\n  a: {{tool: flaky, args: {{path: {path}, failures: 2}}}}"
    )
    assert end.answer == 3
    assert lines(path) == ["try", "try", "try"]


def test_a_transient_failure_that_stays_is_given_up(client: Fleet, planned: Planned, tmp_path: Path) -> None:
    """R30: retries are bounded."""
    path = tmp_path / "tries"
    _, end = run_plan(
        client, planned, f"goal: retry\nsteps:\n  a: {{tool: flaky, args: {{path: {path}, failures: 99}}}}"
    )
    assert end.reason is EndReason.STEPS_FAILED
    assert "unavailable" in end.detail
    assert len(lines(path)) == 3


def test_bad_arguments_fail_the_step_and_say_which(client: Fleet, planned: Planned) -> None:
    _, end = run_plan(
        client,
        planned,
        """
        goal: misuse
        steps:
          a: {tool: noop, args: {value: not a number}}
          b: {tool: sleep, args: {seconds: "$a"}}
        """,
    )
    assert end.reason is EndReason.STEPS_FAILED
    assert "seconds" in end.detail


def test_a_big_value_becomes_an_artifact_and_still_reaches_who_needs_it(client: Fleet, planned: Planned) -> None:
    """R31: big values do not live in Redis."""
    _, end = run_plan(
        client,
        planned,
        """
        goal: big
        steps:
          a: {tool: big, args: {size: 300000}}
          b: {tool: length, args: {text: "$a"}}
        """,
    )
    assert end.answer == 300000


def test_the_same_key_gives_the_same_goal(client: Fleet, planned: Planned) -> None:
    """R35."""
    goal, plan = planned("goal: {objective: once, key: k-1}\nsteps:\n  a: {tool: noop, args: {value: 1}}")
    first, second = client.submit(goal, plan=plan), client.submit(goal, plan=plan)
    assert first.goal_id == second.goal_id
    assert (first.new, second.new) == (True, False)
    assert client.result(first.goal_id, 30).answer == 1


def test_cancel_stops_what_runs_and_starts_nothing_more(client: Fleet, planned: Planned, tmp_path: Path) -> None:
    """R22 in part: nothing starts after the acknowledgement, and `cancelled` is said when it is true."""
    from tests.acceptance.conftest import until

    path = tmp_path / "later"
    goal, plan = planned(
        f"""
        goal: long
        steps:
          a: {{tool: sleep, args: {{seconds: 60}}}}
          b: {{tool: touch, args: {{path: {path}}}, needs: [a]}}
        """
    )
    handle = client.submit(goal, plan=plan)
    until(lambda: states(client, handle.goal_id).get("a") == "leased")
    assert client.cancel(handle.goal_id) == "cancelling"
    end = client.result(handle.goal_id, 30)
    assert end.status is RunStatus.CANCELLED
    assert states(client, handle.goal_id) == {"a": "cancelled", "b": "cancelled"}
    assert lines(path) == []


def test_a_goal_past_its_time_ends_with_that_reason(client: Fleet, planned: Planned) -> None:
    goal, plan = planned(
        "goal: {objective: hurry, budget: {seconds: 0.5}}\nsteps:\n  a: {tool: sleep, args: {seconds: 60}}"
    )
    end = client.result(client.submit(goal, plan=plan).goal_id, 30)
    assert (end.status, end.reason) == (RunStatus.FAILED, EndReason.DEADLINE)


def test_events_of_an_ended_run_are_on_record_in_order(client: Fleet, planned: Planned) -> None:
    """R34: from the live stream or from the record, the same events without a gap."""
    goal_id, _ = run_plan(client, planned, "goal: events\nsteps:\n  a: {tool: noop, args: {value: 1}}")
    events = list(client.watch(goal_id, timeout=30))
    numbers = [int(e.id.split("-")[1]) for e in events]
    assert numbers == list(range(numbers[0], numbers[0] + len(events)))
    assert events[0].type == "run.accepted"
    assert events[-1].type == "run.ended"
    assert [e.type for e in client.watch(goal_id, after=events[2].id, timeout=30)] == [e.type for e in events[3:]]
