"""Which lanes live workers serve, and where ready steps are met."""

import time

from fleet.core.ids import RunId, StepId
from fleet.core.plan import Step
from fleet.core.run import RunContext
from fleet.store.live import Live
from fleet.store.runs import order
from fleet.store.steps import Place


def opened(live: Live, *lanes: str) -> None:
    live.runs.open(RunContext(run=RunId("r1"), goal="g1", tenant="default"), order(4, time.time()))
    live.runs.add("r1", [Step(id=StepId(f"s{n}"), tool="noop", lane=lane) for n, lane in enumerate(lanes)])


def test_a_lane_is_served_while_a_worker_that_names_it_lives(live: Live) -> None:
    live.steps.renew(Place("w1", "main,gpu", 15.0), 4, 60, [])
    assert live.serving.unserved(["gpu", "tpu", "main", "tpu"]) == ["tpu"]
    live.steps.leave("w1")
    assert live.serving.unserved(["gpu", "main"]) == ["gpu", "main"]
    assert live.serving.unserved([]) == []


def test_ready_steps_are_found_on_lanes_that_nobody_ever_served(live: Live) -> None:
    opened(live, "gpu", "gpu", "main")
    assert live.lanes() == []
    assert live.serving.look() == (0, {"gpu": 2, "main": 1})


def test_a_large_redis_is_walked_in_parts(live: Live) -> None:
    opened(live, "gpu")
    for start in range(0, 20_000, 1000):
        live.client.mset({f"{live.keys.namespace}:filler:{start + n}": 1 for n in range(1000)})
    cursor, ready = live.serving.look()
    parts = 1
    while cursor:
        cursor, more = live.serving.look(cursor)
        ready, parts = {**ready, **more}, parts + 1
    assert ready == {"gpu": 1}
    assert parts > 1
