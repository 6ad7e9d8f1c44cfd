"""The scheduler's watch over lanes that nobody serves."""

import pytest

from fleet.engine.deps import Deps
from fleet.engine.lanes import PERIOD, LaneWatch
from fleet.store.steps import Place
from scheduler.main import Scheduler
from tests.engine.fleetlet import a_step, claim, planned


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_lane_that_nobody_serves_is_warned_of_once_a_period(deps: Deps, caplog: pytest.LogCaptureFixture) -> None:
    planned(deps, a_step("a", lane="gpu"), a_step("b", lane="gpu"), a_step("c"))
    clock = Clock()
    watch = LaneWatch(deps, clock)
    watch.look()
    assert caplog.messages == []
    for wait in (deps.settings.lease, PERIOD / 2, PERIOD / 4):
        clock.now += wait
        watch.look()
    said = "2 ready steps wait for lane gpu, which no live worker serves: start one with `fleet worker --lanes gpu`"
    assert caplog.messages == [said]
    clock.now += PERIOD
    watch.look()
    assert caplog.messages == [said, said]


def test_a_lane_that_is_served_in_time_is_not_warned_of(deps: Deps, caplog: pytest.LogCaptureFixture) -> None:
    planned(deps, a_step("a", lane="gpu"))
    clock = Clock()
    watch = LaneWatch(deps, clock)
    watch.look()
    gpu = Place("w2", "gpu", 30.0)
    deps.live.steps.renew(gpu, 1, 60, [])
    clock.now += 2 * deps.settings.lease
    watch.look()
    claim(deps, gpu)
    deps.live.steps.leave("w2")
    clock.now += PERIOD
    watch.look()
    assert caplog.messages == []


def test_a_sweep_of_the_scheduler_looks_at_the_lanes(
    deps: Deps, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    planned(deps, a_step("a", lane="gpu"))
    monkeypatch.setattr("fleet.engine.lanes.EVERY", 0.0)
    deps.settings = deps.settings.model_copy(update={"lease": 1e-9})
    scheduler = Scheduler(deps)
    scheduler.tick()
    scheduler.tick()
    assert [message for message in caplog.messages if "lane gpu" in message]
