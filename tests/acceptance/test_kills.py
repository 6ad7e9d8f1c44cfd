"""Workers die at the worst moments: nothing is lost, and nothing that is on record is done twice."""

from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import pytest

from fleet.app import make_app
from fleet.client import Fleet
from fleet.core.goal import Goal
from fleet.core.ids import GoalId
from fleet.core.run import EndReason, RunStatus
from fleet.embedded.fleet import EmbeddedFleet
from fleet.engine.dead import Replayed
from fleet.store.shapes import Wake
from fleet.store.sql.dead import Wanted
from fleet.store.sql.record import Record
from tests.acceptance import script as turns
from tests.acceptance.conftest import WAIT, Planned, lines, run_plan, states, until
from tests.fleets import running, settings_for
from tests.histories import findings, run_ids
from tests.messages import send
from tests.servers import RedisProcess

Arm = Callable[[str], Callable[[], bool]]


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("points")


@pytest.fixture(scope="module")
def victims(
    redis_server: RedisProcess,
    new_record: Callable[[], str | None],
    script: Path,
    points: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[EmbeddedFleet, Fleet]]:
    """A fleet of two workers that are killed, and started again by their supervisor."""
    folder = tmp_path_factory.mktemp("victims")
    with running(settings_for(folder, redis_server.url, new_record(), model_script=script, crash_at=points)) as both:
        yield both


@pytest.fixture
def fleet(victims: tuple[EmbeddedFleet, Fleet]) -> EmbeddedFleet:
    return victims[0]


@pytest.fixture
def client(victims: tuple[EmbeddedFleet, Fleet]) -> Fleet:
    return victims[1]


@pytest.fixture(autouse=True)
def history(fleet: EmbeddedFleet) -> Iterator[None]:
    """R1, R3, R5, R26, R34: whatever died in a test, the history of its runs is as promised."""
    before = run_ids(fleet)
    yield
    assert findings(fleet, run_ids(fleet) - before) == ()


@pytest.fixture
def arm(points: Path) -> Arm:
    """Arms a crash point; what it gives says whether the point killed somebody."""

    def at(point: str) -> Callable[[], bool]:
        (points / point).touch()
        return lambda: not (points / point).exists()

    return at


def events_of(client: Fleet, goal_id: str, kind: str) -> list[str]:
    return [event.step for event in client.watch(goal_id, timeout=30) if event.type == kind]


def record_of(fleet: EmbeddedFleet) -> Record:
    return Record.open(fleet.settings.record_url)


@pytest.mark.parametrize("point", ["after_claim", "before_effect", "after_effect", "after_journal", "after_commit"])
def test_a_worker_killed_at_any_point_of_a_tool_step_loses_nothing(
    fleet: EmbeddedFleet, client: Fleet, arm: Arm, planned: Planned, tmp_path: Path, point: str
) -> None:
    """R1, R5: once the outcome is on record the tool is not called again."""
    restarts = sum(fleet.counts().values())
    fired = arm(f"tool.{point}")
    path = tmp_path / "touched"
    _, end = run_plan(client, planned, f"goal: touch\nsteps:\n  a: {{tool: touch, args: {{path: {path}}}}}")
    assert fired(), "the fault did not fire"
    until(lambda: sum(fleet.counts().values()) == restarts + 1)
    assert end.status is RunStatus.SUCCEEDED
    assert len(lines(path)) == (2 if point == "after_effect" else 1)


@pytest.mark.parametrize(
    "point",
    [
        "plan.after_claim",
        "plan.before_effect",
        "plan.mid_plan_stream",
        "plan.after_effect",
        "plan.after_journal",
        "plan.after_commit",
        "join.before_effect",
        "join.after_effect",
        "join.mid_replan",
        "join.after_journal",
        "join.after_commit",
        "any.after_send",
    ],
)
def test_a_worker_killed_around_a_model_call_pays_once(
    fleet: EmbeddedFleet, client: Fleet, arm: Arm, point: str
) -> None:
    """R1: a call whose row is done is answered from the ledger; one that was open is issued again and counted."""
    fired = arm(point)
    goal_id = client.submit(Goal(objective=turns.REPLAN)).goal_id
    end = client.result(goal_id, WAIT)
    assert fired(), "the fault did not fire"
    assert (end.status, end.answer) == (RunStatus.SUCCEEDED, "4 letters")
    record = record_of(fleet)
    rows = record.ledger.rows(client.status(goal_id).run_id)
    record.close()
    assert len(rows) == 4
    assert all(row.state == "done" for row in rows)
    in_the_middle = point.endswith(("before_effect", "after_effect", "mid_plan_stream"))
    assert sum(row.reissues for row in rows) == (1 if in_the_middle else 0)
    told = [(call.name, call.times) for call in client.status(goal_id).reissued]
    assert told == ([("scripted", 1)] if in_the_middle else [])


def test_a_write_in_doubt_is_not_repeated(
    fleet: EmbeddedFleet, client: Fleet, planned: Planned, tmp_path: Path
) -> None:
    """R4: the worker died between the effect and its record: a person or a policy decides, not a retry."""
    path = tmp_path / "written"
    _, end = run_plan(
        client, planned, f"goal: write\nsteps:\n  a: {{tool: write_once, args: {{path: {path}, die: true}}}}"
    )
    assert len(lines(path)) == 1
    assert end.reason is EndReason.STEPS_FAILED
    assert "in_doubt" in end.detail


def test_a_step_that_kills_its_workers_is_dead_after_three(
    fleet: EmbeddedFleet, client: Fleet, planned: Planned, tmp_path: Path
) -> None:
    """R10: counted by step; the cause is on record, and the rest of the run goes on."""
    path = tmp_path / "kills"
    goal_id, end = run_plan(
        client,
        planned,
        f"goal: poison\nsteps:\n  a: {{tool: killer, args: {{path: {path}}}}}\n  b: {{tool: noop, args: {{value: 1}}}}",
    )
    assert len(lines(path)) == 3
    assert states(client, goal_id) == {"a": "lost", "b": "succeeded"}
    assert "3 workers" in end.detail
    record = record_of(fleet)
    assert [letter.step_id for letter in record.dead.list()] == ["a"]
    record.close()


def test_a_dead_step_runs_once_its_tool_is_mended_and_it_is_replayed(
    client: Fleet, planned: Planned, tmp_path: Path
) -> None:
    """R10, R23: what had ended well stands, and the goal ends as it should have."""
    kills, kept, mended = tmp_path / "kills", tmp_path / "kept", tmp_path / "mended"
    goal, plan = planned(
        f"""
        goal: mend me
        steps:
          a: {{tool: touch, args: {{path: {kept}}}}}
          b: {{tool: killer, args: {{path: {kills}, mended: {mended}}}, needs: [a]}}
          c: {{tool: noop, args: {{value: $b}}}}
        """
    )
    handle = client.submit(goal, plan=plan)
    assert client.result(handle.goal_id, WAIT).status is RunStatus.FAILED
    (letter,) = client.dead.list(Wanted(goal=GoalId(handle.goal_id)))
    assert (letter.id, letter.tool, letter.losses) == (f"{handle.run_id}:b", "killer", 3)
    mended.touch()
    (answer,) = client.dead.replay([letter.id])
    assert isinstance(answer, Replayed)
    end = client.result(handle.goal_id, WAIT)
    assert (end.status, end.answer) == (RunStatus.SUCCEEDED, 4)
    assert (len(lines(kept)), len(lines(kills))) == (1, 4)
    assert client.status(handle.goal_id).run_id == answer.run_id
    assert client.dead.list(Wanted(goal=GoalId(handle.goal_id))) == ()


def test_a_frozen_worker_cannot_replace_an_outcome_that_stands(
    fleet: EmbeddedFleet, client: Fleet, planned: Planned, tmp_path: Path
) -> None:
    """R3: SIGSTOP past the lease, another finishes, SIGCONT: one row, one outcome; the late one is refused."""
    path = tmp_path / "slow"
    goal, plan = planned(f"goal: slow\nsteps:\n  a: {{tool: slow_touch, args: {{path: {path}, seconds: 0.5}}}}")
    handle = client.submit(goal, plan=plan)
    until(lambda: len(lines(path)) == 1)
    started = next(e for e in client.watch(handle.goal_id, timeout=30) if e.type == "step.started")
    frozen = str(started.data["worker"]).split("@")[0]
    fleet.kill(frozen, SIGSTOP)
    end = client.result(handle.goal_id, WAIT)
    fleet.kill(frozen, SIGCONT)
    assert end.answer == 2
    log = fleet.settings.data / "logs" / f"{frozen}.log"
    until(lambda: "outcome was late" in log.read_text())
    record = record_of(fleet)
    assert record.outcomes.count(handle.run_id) == 2
    outcome = record.outcomes.get(handle.run_id, "a")
    assert outcome is not None
    assert outcome.value == 2
    record.close()


def test_the_same_message_again_runs_nothing_twice(
    fleet: EmbeddedFleet, client: Fleet, planned: Planned, tmp_path: Path
) -> None:
    """R1, R2: sent by hand while the first copy runs, and after it ended."""
    path = tmp_path / "once"
    goal, plan = planned(f"goal: once\nsteps:\n  a: {{tool: slow_touch, args: {{path: {path}, seconds: 0.5}}}}")
    handle = client.submit(goal, plan=plan)
    until(lambda: len(lines(path)) == 1)
    url = fleet.settings.redis_url
    assert url is not None
    app = make_app(url.get_secret_value(), fleet.settings.namespace)
    again = [Wake(handle.run_id, "a")] * 5
    send(app, again)
    assert client.result(handle.goal_id, WAIT).answer == 1
    send(app, again)
    _, marker = run_plan(client, planned, "goal: after\nsteps:\n  a: {tool: noop, args: {value: done}}")
    assert marker.answer == "done"
    assert len(lines(path)) == 1
    assert len(events_of(client, handle.goal_id, "step.started")) == 2


def test_redis_loses_everything_and_every_goal_still_ends(
    fleet: EmbeddedFleet, client: Fleet, planned: Planned, tmp_path: Path
) -> None:
    """R8: FLUSHALL in the middle; what is on record is not done again."""
    path = tmp_path / "flushed"
    goal, plan = planned(
        f"""
        goal: flush
        steps:
          a: {{tool: touch, args: {{path: {path}, word: a}}}}
          b: {{tool: slow_touch, args: {{path: {path}, seconds: 1, word: b}}, needs: [a]}}
          c: {{tool: touch, args: {{path: {path}, word: c}}, needs: [b]}}
        """
    )
    handle = client.submit(goal, plan=plan)
    until(lambda: lines(path) == ["a", "b"])
    flush(fleet)
    end = client.result(handle.goal_id, WAIT)
    assert end.status is RunStatus.SUCCEEDED
    found = lines(path)
    assert found.count("a") == 1
    assert found.count("c") == 1
    assert "run.rebuilt" in {event.type.value for event in client.watch(handle.goal_id, timeout=30)}


def flush(fleet: EmbeddedFleet) -> None:
    """Delete everything of this fleet, as FLUSHALL would if it had the server to itself."""
    import redis

    url = fleet.settings.redis_url
    assert url is not None
    client = redis.Redis.from_url(url.get_secret_value())
    keys = list(client.scan_iter(f"{fleet.settings.namespace}:*", count=1000))
    client.delete(*keys)
    client.close()
