"""A goal whose steps name a lane that no worker serves: it is said at once, and it ends when a worker comes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.cli.main import main
from fleet.client import Fleet
from fleet.embedded.child import ChildSpec
from fleet.embedded.fleet import COMMAND, EmbeddedFleet
from fleet.embedded.supervisor import Supervisor
from fleet.settings import child_environment
from tests.acceptance.conftest import WAIT, until

PLAN = """\
goal: use the other machine
steps:
  - {id: 1, tool: on_gpu}
  - {id: 2, tool: on_gpu, needs: [1]}
"""


def test_whoever_submits_or_looks_is_told_of_a_lane_that_nobody_serves(
    shared: tuple[EmbeddedFleet, Fleet],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    embedded, client = shared
    environment = child_environment(embedded.settings)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    assert main(["submit", str(plan)]) == 0
    goal, said = capsys.readouterr()
    assert said == (
        "no live worker serves lane gpu, so its steps wait until one does: start one with `fleet worker --lanes gpu`\n"
    )
    assert main(["status", goal.strip()]) == 0
    shown, _ = capsys.readouterr()
    assert "2 steps wait for lane gpu, which no live worker serves" in shown
    with_worker(lambda: until(lambda: bool(client.result(goal.strip(), WAIT))), environment, tmp_path)
    assert client.result(goal.strip(), WAIT).answer == "done"
    assert client.status(goal.strip()).unserved == {}


def with_worker(work: Callable[[], None], environment: dict[str, str], folder: Path) -> None:
    """While a worker serves the other lane."""
    supervisor = Supervisor()
    argv = (*COMMAND, "worker", "--name", "gpu", "--lanes", "gpu")
    supervisor.keep(ChildSpec(name="gpu", argv=argv, env=environment, cwd=folder, log=folder / "gpu.log"))
    try:
        work()
    finally:
        supervisor.stop(10.0)
