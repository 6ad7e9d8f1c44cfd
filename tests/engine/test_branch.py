"""Retry and fork: what a new run takes over from another one, and what it does again."""

from pathlib import Path
from typing import Any

import pytest

from fleet.core.events import EventType
from fleet.core.goal import Goal
from fleet.core.ids import RunId, StepId
from fleet.core.outcome import FailureClass
from fleet.core.plan import Hole, Ref, Step
from fleet.core.run import EndReason, RunStatus
from fleet.engine import branch, cancel, recover, submit
from fleet.engine.branch import Changes
from fleet.engine.deps import Deps
from fleet.engine.submit import Handle
from fleet.errors import BadInput, Overloaded, WrongState
from fleet.llm.scripted import ScriptedModel
from fleet.llm.select import Models
from fleet.llm.turns import Turn, write_turns
from fleet.store.sql.goals import GoalRecord
from fleet.tools.context import ToolContext
from fleet.tools.decorator import tool
from fleet.tools.tool import Tool, ToolFailed
from tests.engine.fleetlet import a_step, planned, slot_of, with_tools

A, B, C = StepId("a"), StepId("b"), StepId("c")


class Workshop:
    """Tools that count: `act` gives what it is told, `mended` fails until it is told otherwise."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.keys: list[str] = []
        self.broken = True

    def tools(self) -> list[Tool]:
        @tool(effect="reads", breaker=None, cost=1.0)
        def act(value: str = "x") -> str:
            self.calls.append(value)
            return value

        @tool(effect="reads", breaker=None)
        def mend(value: str = "y") -> str:
            self.calls.append(value)
            if self.broken:
                raise ToolFailed("broken", "not yet")
            return value

        @tool(effect="writes", breaker=None)
        def send(ctx: ToolContext, value: str = "w") -> str:
            self.calls.append(value)
            self.keys.append(ctx.idempotency_key)
            if self.broken:
                raise ToolFailed("unsure", "the line broke", FailureClass.IN_DOUBT)
            return value

        return [act, mend, send]


@pytest.fixture
def shop(deps: Deps) -> Workshop:
    shop = Workshop()
    with_tools(deps, *shop.tools())
    return shop


def record(deps: Deps, run: str) -> GoalRecord:
    return deps.record.goals.of_run(RunId(run))


def run_out(deps: Deps) -> None:
    slot_of(deps).carry(None)


def retried(deps: Deps, run: str, step: str = "", *, redo_writes: bool = False) -> str:
    return branch.retry(record(deps, run), step, deps, redo_writes=redo_writes).run_id


def after(name: str, tool: str, *needs: str, **args: Any) -> Step:
    effect = "writes" if tool == "send" else "reads"
    return a_step(name, tool, needs=tuple(StepId(n) for n in needs), args=args, effect=effect)


def test_a_failed_goal_goes_on_from_what_failed(deps: Deps, shop: Workshop) -> None:
    """R23: a and d stand, b is done again, c for the first time; the run that failed stays as it ended."""
    run = planned(
        deps, after("a", "act"), after("b", "mend", "a"), after("c", "act", "b", value="z"), after("d", "act")
    )
    run_out(deps)
    first = record(deps, run)
    assert (first.status, shop.calls.count("y")) == (RunStatus.FAILED, 1)
    shop.broken, shop.calls = False, []
    again = retried(deps, run)
    run_out(deps)
    assert shop.calls == ["y", "z"]
    newest = deps.record.goals.get(first.goal_id)
    assert (newest.run_id, newest.status, newest.origin) == (again, RunStatus.SUCCEEDED, run)
    assert deps.record.goals.list() == [newest]
    assert deps.record.outcomes.get(run, B) != deps.record.outcomes.get(RunId(again), B)
    assert newest.usage.money == 1.0
    kinds = [event.type for event in deps.live.streams.read(again)]
    assert kinds[:2] == [EventType.ACCEPTED, EventType.TAKEN_OVER]
    assert kinds[-1] is EventType.ENDED


def test_a_retry_from_a_step_does_it_and_what_needs_it_again(deps: Deps, shop: Workshop) -> None:
    """R23: though all of it had succeeded."""
    run = planned(deps, after("a", "act", value="1"), after("b", "act", "a", value="2"), after("c", "act", value="3"))
    run_out(deps)
    with pytest.raises(WrongState, match="nothing of goal"):
        retried(deps, run)
    shop.calls = []
    retried(deps, run, "b")
    run_out(deps)
    assert shop.calls == ["2"]
    with pytest.raises(BadInput, match="no step q"):
        retried(deps, deps.record.goals.get(record(deps, run).goal_id).run_id, "q")


def test_a_cancelled_goal_goes_on_where_it_was_stopped(deps: Deps, shop: Workshop) -> None:
    """R23."""
    deps.settings = deps.settings.model_copy(update={"slice": 1e-9})
    run = planned(deps, after("a", "act", value="1"), after("b", "act", "a", value="2"))
    run_out(deps)
    cancel.cancel(run, deps)
    deps.settings = deps.settings.model_copy(update={"slice": 5.0})
    retried(deps, run)
    run_out(deps)
    assert shop.calls == ["1", "2"]
    assert deps.record.goals.get(record(deps, run).goal_id).status is RunStatus.SUCCEEDED


def test_a_goal_that_has_not_ended_is_not_retried_nor_one_twice(deps: Deps, shop: Workshop) -> None:
    """R23: of two that retry it at once, one does."""
    run = planned(deps, after("b", "mend"))
    with pytest.raises(WrongState, match="is running"):
        retried(deps, run)
    run_out(deps)
    failed = record(deps, run)
    branch.retry(failed, "", deps)
    with pytest.raises(WrongState, match="somebody else"):
        branch.retry(failed, "", deps)
    assert shop.calls == ["y"]


def test_a_retry_counts_against_the_tenants_open_goals(deps: Deps, shop: Workshop) -> None:
    """R20."""
    run = planned(deps, after("b", "mend"))
    run_out(deps)
    deps.settings = deps.settings.model_copy(update={"open_goals": 1})
    planned(deps, after("a", "act"))
    with pytest.raises(Overloaded):
        retried(deps, run)
    assert shop.calls == ["y"]


def test_a_write_that_was_done_is_not_done_again_unless_a_person_says_so(deps: Deps, shop: Workshop) -> None:
    """R4, R23."""
    shop.broken = False
    run = planned(deps, after("a", "act"), after("b", "send", "a"))
    run_out(deps)
    with pytest.raises(BadInput, match=r"b \(send\) changed the world"):
        retried(deps, run, "a")
    again = retried(deps, run, "a", redo_writes=True)
    run_out(deps)
    assert shop.keys == [f"{run}:b:0", f"{again}:b:0"]


def test_a_write_in_doubt_stays_in_doubt_unless_a_person_says_otherwise(deps: Deps, shop: Workshop) -> None:
    """R4, R23: and then it is made under the key that it had, so that its receiver knows it again."""
    run = planned(deps, after("b", "send"))
    run_out(deps)
    shop.broken = False
    once = retried(deps, run)
    run_out(deps)
    assert record(deps, once).status is RunStatus.FAILED
    assert len(shop.keys) == 1
    sure = retried(deps, once, redo_writes=True)
    run_out(deps)
    assert record(deps, sure).status is RunStatus.SUCCEEDED
    assert shop.keys == [f"{run}:b:0"] * 2


def test_a_process_that_dies_after_it_recorded_a_retry_leaves_the_rest_to_the_scheduler(
    deps: Deps, shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5, R23: and Redis that lost everything loses nothing of it."""
    run = planned(deps, after("a", "act"), after("b", "mend", "a"))
    run_out(deps)
    shop.broken, shop.calls = False, []
    with monkeypatch.context() as patched:
        patched.setattr(recover, "launch", lambda *_: None)
        retried(deps, run)
    deps.live.client.delete(*deps.live.client.scan_iter(f"{deps.live.keys.namespace}:*", count=1000))
    recover.ensure_epoch(deps)
    assert recover.rebuild_missing(deps) == 1
    run_out(deps)
    assert shop.calls == ["y"]


def test_a_fork_takes_over_what_succeeded_and_runs_the_rest_with_other_arguments(deps: Deps, shop: Workshop) -> None:
    """R23: a is not done again; the value that was a reference is another one; the goal that it left goes on."""
    hole = Hole(at=("value",), ref=Ref(step=B))
    steps = (after("a", "act", value="1"), after("b", "act", "a", value="2"))
    last = a_step("c", "act", needs=(B,), args={"value": "$b"}, holes=(hole,))
    run = planned(deps, *steps, last)
    run_out(deps)
    shop.calls = []
    origin = record(deps, run)
    changes = Changes(goal={"objective": "otherwise", "labels": {"by": "me"}}, args={"b": {"value": "20"}})
    forked = branch.fork(origin, "a", changes, deps)
    run_out(deps)
    assert shop.calls == ["20", "20"]
    found = record(deps, forked.run_id)
    assert (found.goal.objective, found.status) == ("otherwise", RunStatus.SUCCEEDED)
    came = {"forked_from": origin.goal_id, "forked_at": "step a", "by": "me"}
    assert found.goal.labels == came
    assert record(deps, run) == origin
    branch.fork(origin, "", Changes(args={"c": {"value": "30"}}), deps)
    run_out(deps)
    assert shop.calls == ["20", "20", "30"]


def test_a_fork_of_a_goal_that_runs_is_made_of_what_is_on_record(deps: Deps, shop: Workshop) -> None:
    """R23."""
    deps.settings = deps.settings.model_copy(update={"slice": 1e-9})
    run = planned(deps, after("a", "act", value="1"), after("b", "act", "a", value="2"))
    run_out(deps)
    branch.fork(record(deps, run), "", Changes(), deps)
    deps.settings = deps.settings.model_copy(update={"slice": 5.0})
    run_out(deps)
    assert shop.calls == ["1", "2", "2"]


@pytest.mark.parametrize(
    ("at", "changes", "why"),
    [
        ("q", Changes(), "no step q"),
        ("version.2", Changes(), "no plan 2"),
        ("version.x", Changes(), "is no plan"),
        ("join.1", Changes(), "nothing follows"),
        ("", Changes(args={"q": {"value": 1}}), "no plan of the fork has a step q"),
        ("", Changes(goal={"priority": 20}), "priority"),
        ("", Changes(goal={"tenant": "other"}), "keeps the tenant"),
    ],
)
def test_a_fork_that_makes_no_sense_is_refused_with_why(
    deps: Deps, shop: Workshop, at: str, changes: Changes, why: str
) -> None:
    """R23: before anything is on record."""
    run = planned(deps, after("a", "act"))
    run_out(deps)
    with pytest.raises(BadInput, match=why):
        branch.fork(record(deps, run), at, changes, deps)
    assert len(deps.record.goals.list()) == 1
    assert shop.calls == ["x"]


def script(deps: Deps, path: Path, *turns: Turn) -> None:
    write_turns(path, turns)
    deps.models = Models(planner=ScriptedModel.read(path), step=None)


def asked_for(deps: Deps, objective: str, **more: Any) -> str:
    (handle,) = submit.submit([(Goal(objective=objective, **more), None)], deps)
    assert isinstance(handle, Handle)
    return handle.run_id


def calls_of(deps: Deps, run: str) -> list[tuple[str, int]]:
    """Of planner and joiner."""
    rows = deps.record.ledger.rows(RunId(run))
    return [(row.key.step, row.usage.calls) for row in rows if row.kind == "model"]


def test_a_goal_with_a_planner_goes_on_at_its_last_plan(deps: Deps, shop: Workshop, tmp_path: Path) -> None:
    """R23: neither plan is written again, step 1 stands, the failed step of the last plan is done again and judged."""
    script(
        deps,
        tmp_path / "turns.jsonl",
        Turn(purpose="planner", goal="two", text='1. act("one")\n2. join()'),
        Turn(purpose="joiner", goal="two", text="Action: Replan(more)"),
        Turn(purpose="planner", round=2, goal="two", text='5. mend("two")\n6. join()'),
        Turn(purpose="joiner", round=2, goal="two", text="Hm."),
    )
    run = asked_for(deps, "two")
    run_out(deps)
    assert record(deps, run).end.reason is EndReason.JOINER_FAILED  # type: ignore[union-attr]
    script(deps, tmp_path / "more.jsonl", Turn(purpose="joiner", round=2, goal="two", text="Action: Finish(both)"))
    shop.broken, shop.calls = False, []
    again = retried(deps, run)
    run_out(deps)
    assert shop.calls == ["two"]
    assert record(deps, again).end.answer == "both"  # type: ignore[union-attr]
    assert calls_of(deps, again) == [("join.2", 1)]


def test_a_retry_from_a_plan_has_it_written_anew_and_keeps_those_before_it(
    deps: Deps, shop: Workshop, tmp_path: Path
) -> None:
    """R23: and a fork at turn 3, with a bound that had ended the goal it comes from."""
    turns = [
        turn
        for n in (1, 2, 3)
        for turn in (
            Turn(purpose="planner", round=n, goal="on", text=f'{n * 10}. act("v{n}")\n{n * 10 + 1}. join()'),
            Turn(purpose="joiner", round=n, goal="on", text="Action: Replan(more)"),
        )
    ]
    script(deps, tmp_path / "turns.jsonl", *turns)
    run = asked_for(deps, "on", budget={"replans": 2})
    run_out(deps)
    assert record(deps, run).end.reason is EndReason.TOO_MANY_REPLANS  # type: ignore[union-attr]
    assert shop.calls == ["v1", "v2", "v3"]
    script(
        deps,
        tmp_path / "more.jsonl",
        Turn(purpose="planner", round=3, goal="on", text='40. act("anew")\n41. join()'),
        Turn(purpose="joiner", round=3, goal="on", text="Action: Finish(enough)"),
        Turn(purpose="planner", round=4, goal="on", text='50. act("v4")\n51. join()'),
        Turn(purpose="joiner", round=4, goal="on", text="Action: Finish(four)"),
    )
    again = retried(deps, run, "plan.3")
    run_out(deps)
    assert shop.calls[3:] == ["anew"]
    assert calls_of(deps, again) == [("join.3", 1), ("plan.3", 1)]
    forked = branch.fork(record(deps, run), "version.3", Changes(goal={"budget": {"replans": 5}}), deps)
    run_out(deps)
    assert shop.calls[4:] == []
    assert calls_of(deps, forked.run_id) == [("join.3", 1)]
    assert record(deps, forked.run_id).end.answer == "enough"  # type: ignore[union-attr]
    later = branch.fork(record(deps, run), "join.2", Changes(), deps)
    run_out(deps)
    assert shop.calls[4:] == ["anew"]
    assert calls_of(deps, later.run_id) == [("join.3", 1), ("plan.3", 1)]
