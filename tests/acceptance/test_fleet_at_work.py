"""Many steps and many goals on a fleet: messages, slots, batches."""

from collections.abc import Callable
from pathlib import Path

from fleet import names
from fleet.app import make_app
from fleet.client import Fleet
from fleet.core.goal import Goal
from fleet.core.ids import StepId
from fleet.core.plan import Plan, Step
from fleet.core.run import RunStatus
from fleet.embedded.fleet import EmbeddedFleet
from fleet.errors import FleetFault
from tests.acceptance.conftest import WAIT, states, until
from tests.fleets import running, settings_for
from tests.servers import RedisProcess


def tasks_run(fleet: EmbeddedFleet) -> dict[str, int]:
    """How many Celery tasks of each name the fleet's workers have run."""
    url = fleet.settings.redis_url
    assert url is not None
    app = make_app(url.get_secret_value(), fleet.settings.namespace)
    totals: dict[str, int] = {}
    for stats in (app.control.inspect(timeout=5).stats() or {}).values():
        for name, number in stats["total"].items():
            totals[name] = totals.get(name, 0) + number
    app.close()
    return totals


def test_fifty_ready_steps_on_sixty_four_idle_slots_are_fifty_tasks(
    redis_server: RedisProcess, new_record: Callable[[], str | None], tmp_path: Path
) -> None:
    """Each ready step has a Celery task of its own while slots are idle (its ids: tests/store/test_steps.py)."""
    settings = settings_for(tmp_path, redis_server.url, new_record(), slots=32, workers=2)
    steps = tuple(Step(id=StepId(f"s{i}"), tool="sleep", args={"seconds": 4.0}) for i in range(50))
    with running(settings) as (fleet, client):
        before = tasks_run(fleet).get(names.STEP, 0)
        handle = client.submit(Goal(objective="fifty"), plan=Plan(steps=steps))
        until(lambda: list(states(client, handle.goal_id).values()) == ["leased"] * 50)
        assert client.result(handle.goal_id, WAIT).status is RunStatus.SUCCEEDED
        assert tasks_run(fleet).get(names.STEP, 0) - before == 50


def test_a_batch_of_a_thousand_goals_of_eight_steps_ends(client: Fleet) -> None:
    steps = tuple(Step(id=StepId(f"s{i}"), tool="noop", needs=(StepId(f"s{i - 1}"),) if i else ()) for i in range(8))
    plan = Plan(steps=steps, answer="done")
    handles = client.submit_many([(Goal(objective=f"goal {i}"), plan) for i in range(1000)])
    ids = [handle.goal_id for handle in handles if not isinstance(handle, FleetFault)]
    assert len(ids) == 1000
    assert {client.result(goal_id, WAIT * 2).answer for goal_id in ids} == {"done"}
