"""The simulated fleet: what it meets and comes through, that it can be seen again, and that it finds what is wrong."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.core.goal import Goal
from fleet.core.ids import StepId
from fleet.core.outcome import FailureClass
from fleet.core.plan import AnyOf, BestEffort, Plan, Quorum, Settled, Step
from fleet.core.run import EndReason, RunStatus
from fleet.engine import slot
from fleet.llm.scripted import ScriptedModel, Turn
from fleet.testing import HARD, Bench, Faults, NotAsPromised, Simulator, try_seeds
from fleet.tools.context import ToolContext
from fleet.tools.decorator import tool
from fleet.tools.tool import ToolFailed

KEPT = Path(__file__).with_name("bad_seeds.txt")
PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
SEEDS = int(os.environ.get("SIMULATED_SEEDS", "40"))
"""Of each kind. `make simulate` sets it."""


@tool(effect="reads", breaker=None)
def look(value: int) -> int:
    """Look at the world."""
    return value


@tool(effect="pure", breaker=None)
def compute(value: int) -> int:
    """Reckon."""
    return value


@tool(effect="reads", cost=0.01, breaker=None)
async def pay(value: int) -> int:
    """Look, for money."""
    return value


@tool(effect="writes", breaker=None)
def write(value: int, ctx: ToolContext) -> str:
    """Change the world."""
    return ctx.idempotency_key


@tool(effect="reads", breaker=None)
def refuse(value: int) -> int:
    """Say no."""
    raise ToolFailed("no", "not today", FailureClass.PERMANENT)


TOOLS = (look, compute, pay, write, refuse)


def step(name: str, *needs: str, tool: str = "look", **more: object) -> Step:
    return Step(id=StepId(name), tool=tool, args={"value": len(name)}, needs=tuple(map(StepId, needs)), **more)  # type: ignore[arg-type]


PLAN = Plan(
    steps=(
        step("a", tool="compute"),
        step("b", tool="refuse"),
        step("c", "a", tool="pay"),
        step("d", "a", "b", join=AnyOf()),
        step("e", "b", "c", "d", join=Settled()),
        step("f", "c", "d", "e", join=Quorum(k=2), tool="compute"),
        step("g", "f", join=BestEffort(within=100.0)),
    ),
)
ANSWER = 1
MODEL = ScriptedModel(
    (
        Turn(purpose="planner", goal="reckon", text="1. compute(1)\n2. refuse(2)\n3. join()"),
        Turn(purpose="joiner", goal="reckon", text="Thought: more.\nAction: Replan(2 said no)"),
        Turn(purpose="planner", round=2, goal="reckon", text="7. pay(3)\n8. join()"),
        Turn(purpose="joiner", round=2, goal="reckon", text="Thought: done.\nAction: Finish(three)"),
    ),
    time_scale=0.0,
)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench() as bench:
        yield bench


def test_whatever_goes_wrong_every_goal_ends_as_it_would_have_without_it(bench: Bench) -> None:
    """R1, R3, R5, R7, R8: on the engine and the scripts as they are; every kind of fault happens."""
    fired: Counter[str] = Counter()

    def simulate(seed: int) -> None:
        with Simulator(seed, TOOLS, bench=bench) as sim:
            keys = [sim.submit("try", PLAN), sim.submit("try again", PLAN)]
            ends = sim.run(HARD)
            assert [(ends[key].status, ends[key].answer) for key in keys] == [(RunStatus.SUCCEEDED, ANSWER)] * 2
            sim.check()
            fired.update(sim.fired)

    assert try_seeds(simulate, range(SEEDS), KEPT) >= SEEDS
    assert {name for name, times in fired.items() if times} == set(Faults.model_fields)


def test_goals_that_models_plan_end_right_and_no_reply_is_paid_for_twice(bench: Bench) -> None:
    """R1, R5, R8, R13, R15: planners and joiners that die at any call of a store, and a replan."""

    def simulate(seed: int) -> None:
        with Simulator(seed, TOOLS, model=MODEL, bench=bench) as sim:
            key = sim.submit("reckon")
            end = sim.run(HARD)[key]
            assert (end.status, end.answer) == (RunStatus.SUCCEEDED, "three"), end
            sim.check()

    try_seeds(simulate, range(1000, 1000 + SEEDS // 2), KEPT)


def test_a_write_is_made_once_or_is_in_doubt(bench: Bench) -> None:
    """R4: whatever dies; it is never made again."""
    reasons: Counter[EndReason] = Counter()
    for seed in range(SEEDS // 4):
        with Simulator(seed, TOOLS, bench=bench) as sim:
            key = sim.submit("write", Plan(steps=(step("w", tool="write"),)))
            end = sim.run(Faults(kill=0.08, delay=0.05))[key]
            assert end.status is RunStatus.SUCCEEDED or "in_doubt" in end.detail
            sim.check()
            assert max(sim.asked.values(), default=0) <= 1
            reasons[end.reason] += 1
    assert reasons[EndReason.FINISHED] > 0


def test_a_seed_gives_the_same_again(bench: Bench) -> None:
    """Faults, events and their order."""

    def told() -> tuple[object, ...]:
        with Simulator(11, TOOLS, bench=bench) as sim:
            sim.submit(Goal(objective="try"), PLAN)
            ends = sim.run(HARD)
            (run,) = sim.history().runs
            events = [(event.id, event.type, event.step, dict(event.data)) for event in run.events]
            return ends, sim.fired, events

    assert told() == told()


def test_another_seed_gives_another_schedule(bench: Bench) -> None:
    seen = set()
    for seed in range(4):
        with Simulator(seed, TOOLS, bench=bench) as sim:
            sim.submit("try", PLAN)
            sim.run(HARD)
            seen.add(str(sim.history().runs[0].events)[:20_000])
    assert len(seen) == 4


def test_a_fault_of_the_engine_does_not_get_past_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """R1: an attempt that would not look for what stands on record makes a paid call again, and that is found."""
    from fleet.engine import step as steps

    def forgetful(tool_: object, attempt: object, deps: object) -> object:
        row = opened(tool_, attempt, deps)  # type: ignore[arg-type]
        return row.model_copy(update={"state": "open", "fresh": True})

    opened = steps._opened
    monkeypatch.setattr(steps, "_opened", forgetful)
    found: set[str] = set()
    for seed in range(30):
        with Simulator(seed, TOOLS, bench=bench) as sim:
            sim.submit("try", Plan(steps=(step("a", tool="pay"),)))
            sim.run(Faults(kill=0.1))
            found |= {finding.rule.value for finding in sim.findings()}
    assert "no_call_again" in found


def test_a_goal_that_never_ends_is_named_with_its_seed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """R5."""
    from fleet.testing import simulator

    monkeypatch.setattr(simulator, "PATIENCE", 300)
    monkeypatch.setattr(slot.Slot, "carry", lambda *_: 0)
    with Simulator(5, TOOLS, bench=bench) as sim:
        sim.submit("try", PLAN)
        with pytest.raises(NotAsPromised, match=r"seed 5: .*not ended"):
            sim.run()


def test_a_seed_that_fails_is_kept_and_comes_first(tmp_path: Path) -> None:
    kept = tmp_path / "bad.txt"
    tried: list[int] = []

    def simulate(seed: int) -> None:
        tried.append(seed)
        assert seed != 3, "three is bad"

    for _ in range(2):
        with pytest.raises(AssertionError, match="three is bad") as failed:
            try_seeds(simulate, range(6), kept)
        assert "seed 3" in failed.value.__notes__[0]
    assert tried == [0, 1, 2, 3, 3]
    assert kept.read_text().startswith("3 ")


def test_the_example_of_the_page_runs() -> None:
    """With a server of its own, as a user would run it."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(example, str(PAGE), "exec"), {"__name__": "example"})  # noqa: S102 - it is our own page
