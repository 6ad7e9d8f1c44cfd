"""Plan versions and noted steps."""

from fleet.core.ids import StepId
from fleet.core.plan import AnyOf, BestEffort, Hole, Plan, Quorum, Ref, Settled, Step


def step(n: int, **rest: object) -> Step:
    return Step(id=StepId(str(n)), tool="search", args={"query": "$1", "none": None}, **rest)


PLAN = Plan(
    steps=(
        step(1, note="first"),
        step(2, needs=("1",), holes=(Hole(at=("query",), ref=Ref(step=StepId("1"), path=("rows", 0))),)),
        *(step(n, needs=("1", "2"), join=join) for n, join in enumerate((AnyOf(), Quorum(k=1), Settled()), 3)),
        step(6, join=BestEffort(within=2.0)),
    ),
    source='1. search("x")',
)


def test_a_plan_is_read_back_whole(record, run):
    assert record.plans.save(run, PLAN) == PLAN
    assert record.plans.all(run) == (PLAN,)


def test_the_first_plan_of_a_version_stands(record, run):
    """R3."""
    other = Plan(steps=(step(9),))
    record.plans.save(run, PLAN)
    assert record.plans.save(run, other) == PLAN


def test_versions_come_in_order(record, run):
    for version in (3, 1, 2):
        record.plans.save(run, Plan(version=version, steps=(step(version),)))
    assert [plan.version for plan in record.plans.all(run)] == [1, 2, 3]


def test_steps_of_an_unfinished_plan_are_kept_once_and_in_order(record, run):
    """R13: a planner that dies mid-stream is recovered from these."""
    record.plans.note_steps(run, 1, [step(2), step(1)]).result(10)
    record.plans.note_steps(run, 1, [step(1, note="again"), step(10)]).result(10)
    record.plans.note_steps(run, 2, [step(11)])
    record.plans.note_steps(run, 2, []).result(10)
    assert record.plans.noted(run) == ((1, step(2)), (1, step(1)), (1, step(10)), (2, step(11)))
