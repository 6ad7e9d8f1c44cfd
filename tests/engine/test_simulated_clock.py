"""A fleet keeps out of the namespace of a simulation, where leases are given by another time."""

import os
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from fleet._apps.scheduler.main import Scheduler

from fleet.core.goal import Goal
from fleet.core.plan import Plan
from fleet.engine import recover, submit, sweep
from fleet.engine.deps import Deps, open_deps
from fleet.errors import ClockSimulated
from tests.engine.fleetlet import HERE, a_step, planned


def ahead(deps: Deps, seconds: float) -> None:
    deps.live.client.set(deps.live.keys.clock_offset, round(seconds * 1000))


@pytest.mark.parametrize("command", [["worker", "--name", "w9"], ["scheduler"], ["status", "g1"]])
def test_no_process_of_a_fleet_starts_where_the_clock_is_simulated(deps: Deps, command: list[str]) -> None:
    ahead(deps, 0)
    settings = deps.settings
    assert settings.redis_url is not None
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLEET_")}
    environment |= {"FLEET_REDIS_URL": settings.redis_url.get_secret_value(), "FLEET_NAMESPACE": settings.namespace}
    environment |= {"FLEET_DATA": str(settings.data), "FLEET_SWEEP": "0.05"}
    done = subprocess.run(
        [sys.executable, "-m", "fleet", *command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == ClockSimulated.exit_code
    *_, said = done.stderr.strip().splitlines()
    assert settings.namespace in said
    assert "simulation" in said
    assert "FLEET_NAMESPACE" in said
    assert "Traceback" not in done.stderr


def test_a_scheduler_that_runs_already_ends_where_a_simulation_begins(deps: Deps) -> None:
    ahead(deps, 0)
    with pytest.raises(ClockSimulated):
        Scheduler(deps).run(threading.Event())


def test_a_part_of_the_simulation_starts_and_goes_by_its_clock(deps: Deps) -> None:
    """R5: leases, timers, deadlines and workers all lapse by the clock that scripts read."""
    with closing(open_deps(deps.settings)) as part:
        part.simulated = True
        ahead(deps, 0)
        recover.ensure_epoch(part)
        run = planned(part, a_step())
        attempt, _ = part.live.steps.claim(HERE)
        assert attempt is not None
        assert sweep.sweep(part).reaped == 0
        assert len(part.live.workers()) == 1
        ahead(deps, 31)
        assert sweep.sweep(part).reaped == 1
        ahead(deps, 61)
        assert part.live.workers() == []
        ended = Goal.model_validate({"objective": "in time", "budget": {"seconds": 600}})
        submit.submit([(ended, Plan(steps=(a_step("b"),)))], part)
        assert part.live.runs.overdue() == []
        ahead(deps, 700)
        assert len(part.live.runs.overdue()) == 1
        assert run not in part.live.runs.overdue()
