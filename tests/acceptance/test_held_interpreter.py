"""A step that holds Python's interpreter lock stops its worker's threads, and costs its neighbours nothing."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from signal import SIGKILL

import psutil
import pytest

from fleet.client import Fleet
from fleet.core.ids import RunId
from fleet.core.run import End, RunStatus
from fleet.embedded.fleet import EmbeddedFleet
from fleet.llm.turns import Turn, write_turns
from fleet.store.sql.record import Record
from tests.acceptance.conftest import WAIT, Planned, lines, until
from tests.fleets import running, settings_for
from tests.servers import RedisProcess

LEASE = 3.0
HELD = 5.0
NEIGHBOURS = 63
Started = tuple[EmbeddedFleet, Fleet]


@pytest.fixture(scope="module")
def crowded(
    redis_server: RedisProcess, new_record: Callable[[], str | None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Started]:
    """One worker of 64 slots, a lease of 3 s, and a model that takes 6 s to answer."""
    folder = tmp_path_factory.mktemp("crowded")
    turns = folder / "turns.jsonl"
    write_turns(turns, [Turn(purpose="step", text="an answer", delay_s=HELD + 1)])
    settings = settings_for(
        folder,
        redis_server.url,
        new_record(),
        model_script=turns,
        step_model="scripted:any",
        workers=1,
        slots=NEIGHBOURS + 1,
        lease=LEASE,
        heartbeat=1.0,
        grace=2.0,
    )
    with running(settings) as both:
        yield both


def beating(fleet: EmbeddedFleet) -> list[int]:
    """The process that beats for the worker, which has no other child."""
    worker = fleet.pids().get("w1")
    return [child.pid for child in psutil.Process(worker).children()] if worker else []


def taken_over(client: Fleet, goal_id: str) -> list[str]:
    return [event.step for event in client.watch(goal_id, timeout=30) if event.type == "step.lost"]


def attempts(client: Fleet, goal_id: str) -> list[object]:
    return [event.data["attempt"] for event in client.watch(goal_id, timeout=30) if event.type == "step.started"]


def log_of(fleet: EmbeddedFleet) -> str:
    return (fleet.settings.data / "logs" / "w1.log").read_text()


def ended(client: Fleet, goal_id: str) -> End:
    end = client.result(goal_id, WAIT)
    assert end.status is RunStatus.SUCCEEDED, end
    return end


def test_a_regular_expression_beside_63_model_calls_takes_no_step_from_its_worker(
    crowded: Started, planned: Planned
) -> None:
    """R1, R5: it holds the lock for longer than a lease, from the moment that it is claimed; no call is made twice."""
    fleet, client = crowded
    steps = [f"  lock: {{tool: hold_lock, args: {{seconds: {HELD}}}}}"]
    steps += [f"  m{i}: {{tool: model, args: {{prompt: say {i}}}}}" for i in range(NEIGHBOURS)]
    goal, plan = planned("\n".join(["goal: crowd", "answer: $lock", "steps:", *steps]))
    handle = client.submit(goal, plan=plan)
    end = ended(client, handle.goal_id)
    assert isinstance(end.answer, float)
    assert end.answer > LEASE, "the lock was not held for so long that a lease could run out"
    assert taken_over(client, handle.goal_id) == []
    assert attempts(client, handle.goal_id) == [1] * (NEIGHBOURS + 2)
    with closing(Record.open(fleet.settings.record_url)) as record:
        rows = record.ledger.rows(RunId(handle.run_id))
    assert [(row.state, row.reissues) for row in rows] == [("done", 0)] * NEIGHBOURS


def test_the_process_that_beats_is_killed_and_comes_back_in_time(
    crowded: Started, planned: Planned, tmp_path: Path
) -> None:
    """R5, R6: under steps that run; then one of them takes the lock."""
    fleet, client = crowded
    path, gate = tmp_path / "waiting", tmp_path / "gate"
    steps = [f"  lock: {{tool: hold_lock, args: {{seconds: {HELD}, after: {gate}}}}}"]
    steps += [f"  m{i}: {{tool: wait_there, args: {{path: {path}, word: m{i}, seconds: 4}}}}" for i in range(20)]
    goal, plan = planned("\n".join(["goal: beat", "answer: $lock", "steps:", *steps]))
    handle = client.submit(goal, plan=plan)
    until(lambda: len(lines(path)) == 20)
    (killed,) = beating(fleet)
    os.kill(killed, SIGKILL)
    until(lambda: beating(fleet) not in ([], [killed]))
    gate.touch()
    end = ended(client, handle.goal_id)
    assert isinstance(end.answer, float)
    assert end.answer > LEASE
    assert taken_over(client, handle.goal_id) == []
    assert attempts(client, handle.goal_id) == [1] * 22
    assert "the process that beats is started again" in log_of(fleet)


def test_a_step_that_holds_the_lock_past_its_time_ends_its_worker_and_its_neighbours_go_on(
    crowded: Started, planned: Planned, tmp_path: Path
) -> None:
    """R5, R10: nothing else can stop it; what was beside it has lost an attempt, and is done by another worker."""
    fleet, client = crowded
    path, beside = tmp_path / "locked", tmp_path / "beside"
    goal, plan = planned(
        f"""
        goal: lock up
        answer: $lock
        steps:
          lock: {{tool: lock_up, args: {{path: {path}}}}}
          beside: {{tool: wait_there, args: {{path: {beside}, seconds: 3}}}}
        """
    )
    restarts = sum(fleet.counts().values())
    handle = client.submit(goal, plan=plan)
    assert ended(client, handle.goal_id).answer == 2
    assert "lock" in taken_over(client, handle.goal_id)
    assert sum(fleet.counts().values()) == restarts + 1
    assert "past a deadline: the worker is ended" in log_of(fleet)


def test_a_worker_that_is_killed_leaves_no_process_that_beats_for_it(crowded: Started) -> None:
    """R5: a dead worker's steps go to others when its lease is over."""
    fleet, _ = crowded
    until(lambda: bool(beating(fleet)))
    (pid,) = beating(fleet)
    fleet.kill("w1")
    until(lambda: not psutil.pid_exists(pid), 5.0)
