"""Merging what a planner wrote onto what a run already has."""

from planning_samples import FAILED_TRENCHES, SECOND_TRENCHES, TRENCHES, plan_of

from fleet.core.plan import Plan
from fleet.planning.merge import Alias, Merger


def existing(text: str) -> Merger:
    return Merger({step.id: step for step in plan_of(text).steps})


def test_the_same_plan_again_makes_no_new_step() -> None:
    """R14, R15"""
    merger = existing(TRENCHES)
    assert [merger.add(step) for step in plan_of(TRENCHES).steps] == [Alias(id=str(n), to=str(n)) for n in range(1, 8)]
    assert merger.steps == ()


def test_a_whole_new_plan_under_the_old_numbers_keeps_what_is_there() -> None:
    """R15: a replan that numbers from 1 again, and writes everything again, runs only what is new."""
    failed = {"3", "4", "5", "6", "7"}
    merger = Merger({step.id: step for step in plan_of(FAILED_TRENCHES).steps}, failed)
    made = [merger.add(step) for step in plan_of(TRENCHES).steps]
    assert made[:2] == [Alias(id="1", to="1"), Alias(id="2", to="2")]
    assert [(step.id, step.needs) for step in merger.steps] == [
        ("8", ("1",)),
        ("9", ("2",)),
        ("10", ("8",)),
        ("11", ("9",)),
        ("12", ("10", "11")),
    ]
    assert merger.steps[2].args == {"expression": "$8 * 0.80"}
    assert merger.steps[4].args["values"] == ["$10", "$11"]


def test_a_recorded_replan_is_taken_as_it_is() -> None:
    """R15: 5 new calls, not 7."""
    first = plan_of(FAILED_TRENCHES)
    second: Plan = plan_of(SECOND_TRENCHES, known=first.steps)
    merger = Merger({step.id: step for step in first.steps}, {"3", "4", "5", "6", "7"})
    assert [merger.add(step) for step in second.steps] == list(second.steps)
    assert merger.aliases == {}


def test_a_planner_that_died_and_begins_anew_finds_its_steps() -> None:
    """R13: also where the second answer stands in another order."""
    merger = existing('1. search("a")\n2. search("b")\njoin')
    for step in plan_of('1. search("b")\n2. search("a")\n3. extract("$1", "h")\njoin').steps:
        merger.add(step)
    assert merger.aliases == {"1": "2", "2": "1"}
    assert [(step.id, step.args["text"], step.needs) for step in merger.steps] == [("3", "$2", ("2",))]


def test_a_failed_step_that_is_wanted_again_gets_a_new_number() -> None:
    """R15: an outcome is a fact; trying again is another step."""
    merger = Merger({step.id: step for step in plan_of('1. search("a")\njoin').steps}, {"1"})
    (step,) = plan_of('1. search("a")\njoin').steps
    assert merger.add(step) == step.model_copy(update={"id": "2"})


def test_a_number_given_away_moves_the_line_that_bears_it() -> None:
    """R15: line 2 becomes 3, so line 3 becomes 4, and references go where they were meant to."""
    merger = existing('1. search("a")\n2. search("b")\njoin')
    for step in plan_of('2. search("c")\n3. extract("$2", "h")\n4. calc("$3 + 1")\njoin').steps:
        merger.add(step)
    assert [(step.id, step.needs) for step in merger.steps] == [("3", ()), ("4", ("3",)), ("5", ("4",))]
    assert merger.steps[2].args == {"expression": "$4 + 1"}
    assert merger.next_id == 6


def test_a_write_of_an_earlier_plan_is_not_repeated_and_each_is_taken_once() -> None:
    """R4, R15"""
    merger = existing('1. send("a", "b")\njoin')
    steps = plan_of('1. send("a", "b")\n2. send("a", "b")\n3. send("a", "b")\njoin').steps
    assert merger.add(steps[0]) == Alias(id="1", to="1")
    assert [merger.add(step) for step in steps[1:]] == list(steps[1:])


def test_a_write_that_failed_may_be_tried_again() -> None:
    """R4"""
    steps = plan_of('1. send("a", "b")\njoin').steps
    merger = Merger({step.id: step for step in steps}, {"1"})
    added = merger.add(steps[0])
    assert not isinstance(added, Alias)
    assert added.id == "2"
