"""The rounds of a run: when the next plan may be written."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fleet.core.goal import Goal
from fleet.core.outcome import Outcome, Status
from fleet.engine import join, recover, submit
from fleet.engine.deps import Deps, open_deps
from fleet.engine.submit import Handle
from fleet.store.steps import Place
from tests.fleets import settings_for
from tests.servers import RedisProcess

HERE = Place("w1", "main", 30.0)
DONE = Outcome(status=Status.SUCCEEDED)


@pytest.fixture
def deps(redis_server: RedisProcess, tmp_path: Path) -> Iterator[Deps]:
    with closing(open_deps(settings_for(tmp_path, redis_server.url))) as deps:
        recover.ensure_epoch(deps)
        yield deps


def test_a_further_plan_waits_until_the_verdict_that_asks_for_it_stands(deps: Deps) -> None:
    """R15: its planner is told the reason, however soon another worker takes it up."""
    (handle,) = submit.submit([(Goal(objective="plan twice"), None)], deps)
    assert isinstance(handle, Handle)
    steps = deps.live.steps
    first, _ = steps.claim(HERE)
    assert first is not None
    joining = steps.commit(first, DONE, HERE).attempt
    assert joining is not None
    assert joining.step.id == "join.1"
    join.add_round(handle.run_id, 2, deps)
    assert steps.claim(HERE)[0] is None
    further = steps.commit(joining, DONE, HERE).attempt
    assert further is not None
    assert further.step.id == "plan.2"
    steps.commit(further, DONE, HERE, want=False)
    assert steps.claim(HERE)[0] is not None
