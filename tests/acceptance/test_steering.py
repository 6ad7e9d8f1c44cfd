"""Pause, resume, retry, fork and cancel by the command line, on real workers, with a kill -9 in the middle of each."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGKILL

import pytest

from fleet.client import Fleet
from fleet.core.goal import Goal
from fleet.core.run import RunStatus
from fleet.embedded.fleet import EmbeddedFleet
from fleet.settings import child_environment
from fleet.store.sql.goals import GoalRecord
from fleet.store.sql.record import Record
from tests.acceptance.conftest import WAIT, Planned, lines, run_plan, states, until
from tests.fleets import running, settings_for
from tests.servers import RedisProcess

CHAIN = 14
KILLED = -SIGKILL


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("points")


@pytest.fixture(scope="module")
def steered(
    redis_server: RedisProcess,
    new_record: Callable[[], str | None],
    points: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[EmbeddedFleet, Fleet]]:
    folder = tmp_path_factory.mktemp("steered")
    with running(settings_for(folder, redis_server.url, new_record(), crash_at=points)) as both:
        yield both


@pytest.fixture
def client(steered: tuple[EmbeddedFleet, Fleet]) -> Fleet:
    return steered[1]


Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(steered: tuple[EmbeddedFleet, Fleet], points: Path) -> Command:
    """Runs `fleet ...`. dies: the crash point at which it is to kill itself."""
    environment = child_environment(steered[0].settings)

    def run(*argv: str, dies: str = "") -> "subprocess.CompletedProcess[str]":
        if dies:
            (points / dies).touch()
        whole = [sys.executable, "-m", "fleet", *argv]
        done = subprocess.run(whole, env=environment, capture_output=True, text=True, check=False, timeout=WAIT)
        if dies:
            assert done.returncode == KILLED, f"the fault did not fire: {done}"
        return done

    return run


@pytest.fixture
def goals(steered: tuple[EmbeddedFleet, Fleet]) -> Iterator[Callable[[], list[GoalRecord]]]:
    record = Record.open(steered[0].settings.record_url)
    yield record.goals.list
    record.close()


def chain(path: Path) -> str:
    """Steps one behind the other, each of which leaves its name in a file and takes a while."""
    step = "  s{n}: {{tool: slow_touch, args: {{path: {path}, seconds: 0.8, word: s{n}}}, needs: [{need}]}}"
    steps = [step.format(n=n, path=path, need=f"s{n - 1}" if n else "") for n in range(CHAIN)]
    return "goal: one by one\nsteps:\n" + "\n".join(steps)


def kill_workers(fleet: EmbeddedFleet) -> None:
    """All of them; they are started again."""
    before = sum(fleet.counts().values())
    for name in ("w1", "w2"):
        fleet.kill(name)
    until(lambda: sum(fleet.counts().values()) == before + 2)


def still(client: Fleet, goal_id: str) -> bool:
    """Whether nothing of the goal runs, and something is held."""
    found = set(states(client, goal_id).values())
    return "held" in found and "leased" not in found and "ready" not in found


def test_a_goal_is_paused_and_goes_on_though_each_command_is_killed_half_way_and_so_are_the_workers(
    steered: tuple[EmbeddedFleet, Fleet], client: Fleet, command: Command, planned: Planned, tmp_path: Path
) -> None:
    """R22, R23: on record is what was asked for, and the scheduler sees to the rest; nothing is lost or done twice."""
    path = tmp_path / "chain"
    goal, plan = planned(chain(path))
    goal_id = client.submit(goal, plan=plan).goal_id
    until(lambda: bool(lines(path)))
    command("pause", goal_id, dies="pause.after_record")
    assert client.status(goal_id).status is RunStatus.PAUSED
    until(lambda: still(client, goal_id))
    before = lines(path)
    kill_workers(steered[0])
    _, marker = run_plan(client, planned, "goal: meanwhile\nsteps:\n  a: {tool: noop, args: {value: done}}")
    assert marker.answer == "done"
    assert (lines(path), len(before) < CHAIN) == (before, True)
    command("resume", goal_id, dies="resume.after_record")
    assert client.result(goal_id, WAIT).status is RunStatus.SUCCEEDED
    assert lines(path) == [f"s{n}" for n in range(CHAIN)]


def test_a_paused_goal_whose_running_step_loses_its_worker_holds_it(
    steered: tuple[EmbeddedFleet, Fleet], client: Fleet, command: Command, planned: Planned, tmp_path: Path
) -> None:
    """R22, R23: another worker gets it only when the goal goes on; pausing twice changes nothing."""
    path = tmp_path / "long"
    goal, plan = planned(f"goal: long\nsteps:\n  a: {{tool: slow_once, args: {{path: {path}, seconds: 50}}}}")
    goal_id = client.submit(goal, plan=plan).goal_id
    until(lambda: bool(lines(path)))
    assert json.loads(command("pause", goal_id, "--json").stdout) == {"goal_id": goal_id, "status": "paused"}
    kill_workers(steered[0])
    until(lambda: states(client, goal_id)["a"] == "held")
    assert command("pause", goal_id).stdout == "paused\n"
    assert len(lines(path)) == 1
    assert command("resume", goal_id).stdout == "running\n"
    assert client.result(goal_id, WAIT).answer == 2
    refused = command("pause", goal_id)
    assert (refused.returncode, refused.stdout) == (5, "")
    assert "has ended (succeeded)" in refused.stderr


def failing(folder: Path) -> str:
    """a succeeds; b writes into a folder that is not there yet; c needs it."""
    return f"""
        goal: mend it
        steps:
          a: {{tool: touch, args: {{path: {folder}.a}}}}
          b: {{tool: touch, args: {{path: {folder}/b}}, needs: [a]}}
          c: {{tool: touch, args: {{path: {folder}/c}}, needs: [b]}}
        """


def test_a_retry_that_is_killed_is_made_by_the_scheduler_or_not_at_all(
    client: Fleet, command: Command, planned: Planned, points: Path, tmp_path: Path
) -> None:
    """R23: killed before its record nothing has happened; killed behind it, and a worker of it too, all of it does."""
    folder = tmp_path / "absent"
    goal_id, end = run_plan(client, planned, failing(folder))
    first = client.status(goal_id)
    assert end.status is RunStatus.FAILED
    folder.mkdir()
    command("retry", goal_id, dies="retry.before_record")
    assert client.status(goal_id).run_id == first.run_id
    (points / "tool.after_claim").touch()
    command("retry", goal_id, dies="retry.after_record")
    end = client.result(goal_id, WAIT)
    assert (end.status, end.answer) == (RunStatus.SUCCEEDED, 1)
    assert not (points / "tool.after_claim").exists(), "the fault did not fire"
    assert client.status(goal_id).origin == first.run_id
    assert [len(lines(Path(f"{folder}{name}"))) for name in (".a", "/b", "/c")] == [1, 1, 1]
    refused = command("retry", goal_id)
    assert refused.returncode == 5
    again = json.loads(command("retry", goal_id, "--from", "c", "--json").stdout)
    assert again["goal_id"] == goal_id
    assert client.result(goal_id, WAIT).answer == 2
    assert len(lines(folder / "b")) == 1


def test_a_fork_that_is_killed_is_launched_by_the_scheduler(
    client: Fleet, command: Command, planned: Planned, goals: Callable[[], list[GoalRecord]], tmp_path: Path
) -> None:
    """R23: its goal says what it came from, what had succeeded is not done again, and the other goal stays."""
    folder = tmp_path / "there"
    folder.mkdir()
    goal_id, _ = run_plan(client, planned, failing(folder))
    other = tmp_path / "other"
    command("fork", goal_id, "--at", "b", "--set", f"c.path={other}", dies="fork.after_record")
    (forked,) = (found for found in goals() if found.goal.labels.get("forked_from") == goal_id)
    assert client.result(forked.goal_id, WAIT).answer == 1
    assert [len(lines(path)) for path in (folder / "b", folder / "c", other)] == [1, 1, 1]
    assert client.status(goal_id).status is RunStatus.SUCCEEDED
    third = command("fork", goal_id, "--with", "objective=once more", "--set", f"c.path={other}").stdout.strip()
    assert client.result(third, WAIT).answer == 2
    assert client.status(third).objective == "once more"


def test_cancelling_a_goal_stops_its_child_goals_though_the_command_is_killed_half_way(
    client: Fleet, command: Command, planned: Planned, tmp_path: Path
) -> None:
    """R22: async tools stop at once, and `cancelled` is said when nothing of them runs."""
    path = tmp_path / "family"
    text = f"goal: wait\nsteps:\n  a: {{tool: wait_there, args: {{path: {path}, seconds: 60}}, timeout: 90}}"
    goal, plan = planned(text)
    parent = client.submit(goal, plan=plan)
    child = client.submit(Goal(objective="a part", parent=parent.goal_id), plan=plan)
    until(lambda: len(lines(path)) == 2)
    command("cancel", parent.goal_id, dies="cancel.after_record")
    assert client.result(parent.goal_id, WAIT).status is RunStatus.CANCELLED
    assert client.status(child.goal_id).status is RunStatus.CANCELLED
    assert states(client, child.goal_id) == states(client, parent.goal_id) == {"a": "cancelled"}
