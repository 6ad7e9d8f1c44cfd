"""What people see in Flower: each step as a task named for what it does, nothing of what it works on."""

from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGTERM
from typing import Any

import httpx
import pytest

from fleet.client import Fleet
from fleet.core.goal import Goal
from fleet.core.ids import StepId
from fleet.core.plan import Plan, Step
from fleet.embedded.fleet import EmbeddedFleet
from tests.acceptance import script as turns
from tests.acceptance.conftest import WAIT, Planned, run_plan, until
from tests.fleets import running, settings_for
from tests.servers import RedisProcess

Page = Callable[[str], httpx.Response]


@pytest.fixture(scope="module")
def watched(
    redis_server: RedisProcess,
    new_record: Callable[[], str | None],
    script: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[EmbeddedFleet, Fleet]]:
    folder = tmp_path_factory.mktemp("watched")
    more = {"flower": True, "workers": 1, "model_script": script}
    with running(settings_for(folder, redis_server.url, new_record(), **more)) as both:
        yield both


@pytest.fixture
def page(watched: tuple[EmbeddedFleet, Fleet]) -> Iterator[Page]:
    """Reads a page of Flower with its login, once it answers and sees the worker."""
    flower = watched[0].flower
    assert flower is not None
    with httpx.Client(base_url=flower.address, auth=httpx.BasicAuth(*flower.login.split(":")), timeout=10) as people:

        def read(path: str) -> httpx.Response:
            return people.get(path).raise_for_status()

        until(lambda: _sees_a_worker(read))
        until(lambda: _hears(read, watched[1]))
        yield read


def _sees_a_worker(read: Page) -> bool:
    try:
        return "w1@" in read("/workers?json=1").text
    except httpx.HTTPError:
        return False


def _hears(read: Page, client: Fleet) -> bool:
    """Whether events reach it: nobody keeps those that are sent before it listens."""
    run = client.submit(Goal(objective="listen"), plan=Plan(steps=(Step(id=StepId("1"), tool="noop"),)))
    client.result(run.goal_id, WAIT)
    try:
        return any(task["uuid"].startswith(run.run_id) for task in read("/api/tasks").json().values())
    except httpx.HTTPError:
        return False


def tasks_of(read: Page, run: str, number: int) -> list[dict[str, Any]]:
    """The tasks of a run, once so many of them have ended."""
    found: list[dict[str, Any]] = []

    def ended() -> bool:
        every = read("/api/tasks").json().values()
        found[:] = [task for task in every if task["uuid"].startswith(run)]
        return sum(task["state"] in ("SUCCESS", "FAILURE", "RETRY") for task in found) >= number

    until(ended)
    return found


def test_every_step_is_a_task_named_for_what_it_does_with_ids_alone(
    watched: tuple[EmbeddedFleet, Fleet], page: Page
) -> None:
    """R33 in part: plan, tools and join by name; arguments are run, step and attempt; wake-ups do not clutter."""
    client = watched[1]
    handle = client.submit(Goal(objective=turns.COMPARE))
    assert client.result(handle.goal_id, WAIT).answer == "8"
    tasks = tasks_of(page, handle.run_id, 5)
    assert {(task["name"], task["args"]) for task in tasks} == {
        ("fleet.plan", repr((handle.run_id, "plan.1", 1))),
        *(("fleet.tool.calc", repr((handle.run_id, str(n), 1))) for n in (1, 2, 3)),
        ("fleet.join", repr((handle.run_id, "join.1", 1))),
    }
    assert all((task["state"], task["kwargs"], task["result"]) == ("SUCCESS", "{}", "") for task in tasks)
    assert all(task["worker"].startswith("w1@") for task in tasks)
    everything = page("/api/tasks").json().values()
    assert not [task["name"] for task in everything if task["name"] is None or ".v1" in task["name"]]


def test_no_value_and_no_error_text_reaches_flower(
    watched: tuple[EmbeddedFleet, Fleet], page: Page, planned: Planned, tmp_path: Path
) -> None:
    """R33 in part, R38 in part: what a step works on, gives or complains of stays out of every page."""
    client = watched[1]
    goal_id, _ = run_plan(
        client,
        planned,
        f"""
        goal: sesame in the goal
        steps:
          a: {{tool: noop, args: {{value: sesame in a value}}}}
          b: {{tool: broken, args: {{message: sesame in an error}}}}
          c: {{tool: flaky, args: {{path: {tmp_path}/sesame, failures: 1}}}}
        """,
    )
    run = client.status(goal_id).run_id
    tasks = tasks_of(page, run, 5)
    assert {(task["uuid"].removeprefix(f"{run}:"), task["state"], task["exception"]) for task in tasks} == {
        ("a:1", "SUCCESS", None),
        ("b:1", "FAILURE", "broken"),
        ("c:1", "RETRY", "unavailable"),
        ("c:2", "SUCCESS", None),
        ("join.1:1", "SUCCESS", None),
    }
    paths = ["/tasks", "/workers", "/broker", "/api/tasks", *(f"/task/{task['uuid']}" for task in tasks)]
    assert not [path for path in paths if "sesame" in page(path).text or "try later" in page(path).text]


def test_an_attempt_whose_worker_was_killed_does_not_run_for_ever(
    watched: tuple[EmbeddedFleet, Fleet], page: Page, planned: Planned, tmp_path: Path
) -> None:
    """R33 in part: it is shown as retried, of the worker that was killed; and the attempt that followed as done."""
    fleet, client = watched
    goal, plan = planned(f"goal: survive\nsteps:\n  a: {{tool: slow_touch, args: {{path: {tmp_path}/t, seconds: 2}}}}")
    handle = client.submit(goal, plan=plan)
    started = f"{handle.run_id}:a:1"
    until(lambda: page("/api/tasks").json().get(started, {}).get("state") == "STARTED")
    fleet.kill("w1")
    client.result(handle.goal_id, WAIT)
    tasks = {task["uuid"].removeprefix(f"{handle.run_id}:"): task for task in tasks_of(page, handle.run_id, 3)}
    assert {name: task["state"] for name, task in tasks.items()} == {
        "a:1": "RETRY",
        "a:2": "SUCCESS",
        "join.1:1": "SUCCESS",
    }
    assert (tasks["a:1"]["exception"], tasks["a:1"]["worker"]) == ("worker lost, or stuck", tasks["a:2"]["worker"])


def test_history_survives_a_restart_of_flower(
    watched: tuple[EmbeddedFleet, Fleet], page: Page, planned: Planned
) -> None:
    """R33 in part."""
    fleet, client = watched
    goal_id, _ = run_plan(client, planned, "goal: remember\nsteps:\n  a: {tool: noop, args: {value: 1}}")
    run = client.status(goal_id).run_id
    before = tasks_of(page, run, 2)
    restarts = fleet.restarts("flower")
    fleet.kill("flower", SIGTERM)
    until(lambda: fleet.restarts("flower") > restarts)
    until(lambda: _sees_a_worker(page))
    assert {task["uuid"]: task["state"] for task in tasks_of(page, run, 2)} == {
        task["uuid"]: task["state"] for task in before
    }
