"""Every example runs, and so does what README shows, from README's own text."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.client import Fleet
from fleet.core.run import RunStatus
from fleet.embedded.fleet import EmbeddedFleet
from fleet.planning.documents import load_plan
from fleet.settings import child_environment
from fleet.tools.registry import Registry
from tests.acceptance.conftest import WAIT
from tests.fleets import running, settings_for
from tests.servers import RedisProcess

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
OWN_TOOL = EXAMPLES / "own_tool" / "tools.py"
README = (ROOT / "README.md").read_text()
ANSWERS: dict[str, Any] = {"trench.yaml": {"deepest": "Mariana", "metres": 8787.2}, "settled.yaml": 6}

Running = tuple[EmbeddedFleet, Fleet]


def block(language: str) -> str:
    """The one block of README in that language."""
    found = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert len(found) == 1
    return str(found[0])


@pytest.fixture(scope="module")
def fleet(
    redis_server: RedisProcess, new_record: Callable[[], str | None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("examples")
    settings = settings_for(folder, redis_server.url, new_record(), workers=1, tools=str(OWN_TOOL))
    with running(settings) as both:
        yield both


def answer(fleet: Running, plan: Path, **parameters: Any) -> Any:
    specs = {spec.name: spec for spec in Registry.load([str(OWN_TOOL)]).specs()}
    document = load_plan(plan.read_text(), specs, parameters, plan.name)
    end = fleet[1].result(fleet[1].submit(document.goal, plan=document.plan).goal_id, WAIT)
    assert end.status is RunStatus.SUCCEEDED, end.detail
    return end.answer


def command(fleet: Running, *argv: str) -> "subprocess.CompletedProcess[str]":
    """A program in the root of the checkout, for this fleet."""
    environment = child_environment(fleet[0].settings)
    return subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=WAIT)


def without_times(text: str) -> list[str]:
    """The lines of a story, without what differs from run to run: ids, times, workers, and who was first."""
    lines = re.sub(r"\d+\.\d s", "0.0 s", re.sub(r"\bg[0-9a-z]{26}\b|\bw\d\b", "*", text)).splitlines()
    return sorted(line.rstrip() for line in lines if line.strip())


@pytest.mark.parametrize("name", sorted(path.name for path in (EXAMPLES / "plans").iterdir()))
def test_an_example_plan_gives_its_answer(fleet: Running, name: str) -> None:
    assert answer(fleet, EXAMPLES / "plans" / name) == ANSWERS[name]


def test_the_example_of_an_own_tool_orders_what_is_missing_once(fleet: Running, tmp_path: Path) -> None:
    book = tmp_path / "orders.txt"
    assert answer(fleet, EXAMPLES / "own_tool" / "restock.yaml", book=str(book)) == "80 bolt ordered"
    assert [line.split()[1:] for line in book.read_text().splitlines()] == [["80", "bolt"]]


def test_the_example_producer_hands_in_a_hundred_goals(fleet: Running) -> None:
    done = command(fleet, sys.executable, str(EXAMPLES / "producer.py"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "100 goals; the Mariana Trench loses its place when it is 24% shallower\n"


def test_the_plan_in_readme_is_the_example() -> None:
    assert block("yaml") == (EXAMPLES / "plans" / "trench.yaml").read_text()


def test_the_output_in_readme_is_what_the_command_prints(fleet: Running) -> None:
    asked, _, shown = block("console").partition("\n")
    program, *argv = asked.removeprefix("$ ").split()
    assert program == "fleet"
    done = command(fleet, sys.executable, "-m", "fleet", *argv)
    assert done.returncode == 0, done.stderr
    assert without_times(done.stderr + done.stdout) == without_times(shown)


def test_the_producer_in_readme_runs_as_it_stands(fleet: Running) -> None:
    done = command(fleet, sys.executable, "-W", "error", "-c", block("python"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "{'deepest': 'Puerto Rico', 'metres': 7688.8}\n"
