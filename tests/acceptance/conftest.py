"""One fleet of two worker processes for the tests that harm nobody; those that kill start their own."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.client import Fleet
from fleet.core.goal import Goal
from fleet.core.plan import Plan
from fleet.core.run import End
from fleet.core.tool import ToolSpec
from fleet.embedded.fleet import EmbeddedFleet
from fleet.llm.turns import write_turns
from fleet.planning.documents import load_plan
from fleet.tools.registry import Registry
from tests.acceptance.script import TURNS
from tests.fleets import TOOLS, running, settings_for
from tests.servers import RedisProcess

WAIT = 60.0


@pytest.fixture(scope="session")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "turns.jsonl"
    write_turns(path, TURNS)
    return path


@pytest.fixture(scope="session")
def shared(
    redis_server: RedisProcess,
    new_record: Callable[[], str | None],
    script: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[EmbeddedFleet, Fleet]]:
    folder = tmp_path_factory.mktemp("fleet")
    with running(settings_for(folder, redis_server.url, new_record(), model_script=script)) as both:
        yield both


@pytest.fixture
def client(shared: tuple[EmbeddedFleet, Fleet]) -> Fleet:
    return shared[1]


@pytest.fixture(scope="session")
def specs() -> dict[str, ToolSpec]:
    registry = Registry.load(["fleet.tools.builtin.testing_aids", str(TOOLS)])
    return {spec.name: spec for spec in registry.specs()}


Planned = Callable[[str], tuple[Goal, Plan]]


@pytest.fixture(scope="session")
def planned(specs: dict[str, ToolSpec]) -> Planned:
    """A goal and its plan from YAML."""

    def load(text: str) -> tuple[Goal, Plan]:
        document = load_plan(text, specs, {}, "the test")
        return document.goal, document.plan

    return load


def run_plan(client: Fleet, planned: Planned, text: str) -> tuple[str, End]:
    goal, plan = planned(text)
    handle = client.submit(goal, plan=plan)
    return handle.goal_id, client.result(handle.goal_id, WAIT)


def states(client: Fleet, goal_id: str) -> dict[str, str]:
    return {step.id: step.state for step in client.status(goal_id).steps if step.kind == "tool"}


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def until(condition: Callable[[], bool], seconds: float = WAIT) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
