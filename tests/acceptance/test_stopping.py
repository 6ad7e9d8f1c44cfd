"""Workers that are told to stop: what runs is handed back within a bound, is no loss, and runs elsewhere at once."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from signal import SIGTERM
from subprocess import Popen
from typing import NamedTuple

import pytest

from fleet.client import Fleet
from fleet.core.events import EventType
from fleet.core.goal import Goal
from fleet.core.plan import Plan
from fleet.core.run import RunStatus
from fleet.embedded.child import Backoff
from fleet.embedded.fleet import EmbeddedFleet
from fleet.store.live import Live
from tests.acceptance.conftest import WAIT, Planned, lines, until
from tests.fleets import running, settings_for
from tests.histories import findings
from tests.processes import process
from tests.servers import RedisProcess

GRACE = 5.0
LEASE = 60.0
"""Seconds: a step that runs elsewhere sooner was handed back, and not taken back."""
SOON = 3.0
STEPS = 200


@pytest.fixture(scope="module")
def both(
    redis_server: RedisProcess, new_record: Callable[[], str | None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[EmbeddedFleet, Fleet]]:
    """A fleet whose own worker serves another lane, so that tests can start and stop those of the main one."""
    folder = tmp_path_factory.mktemp("stopping")
    settings = settings_for(
        *(folder, redis_server.url, new_record()),
        **{"workers": 1, "slots": 1, "lanes": "idle", "lease": LEASE, "heartbeat": 1.0, "grace": GRACE},
    )
    with running(settings) as made:
        yield made


@pytest.fixture
def live(both: tuple[EmbeddedFleet, Fleet]) -> Iterator[Live]:
    url = both[0].settings.redis_url
    assert url is not None
    live = Live.connect(url.get_secret_value(), both[0].settings.namespace)
    yield live
    live.close()


class Workers:
    """Worker processes of the main lane."""

    def __init__(self, fleet: EmbeddedFleet, live: Live, folder: Path, stack: ExitStack) -> None:
        self._fleet, self._live, self._folder, self._stack = fleet, live, folder, stack

    def start(self, name: str, slots: int) -> "Popen[bytes]":
        """Returns when it serves."""
        argv = ("worker", "--name", name, "--lanes", "main", "--slots", str(slots))
        started = self._stack.enter_context(process(self._fleet.settings, *argv, log=self._folder / f"{name}.log"))
        until(lambda: any(worker.name.endswith(f".{started.pid}") for worker in self._live.workers()))
        return started


@pytest.fixture
def workers(both: tuple[EmbeddedFleet, Fleet], live: Live, tmp_path: Path) -> Iterator[Workers]:
    with ExitStack() as stack:
        yield Workers(both[0], live, tmp_path, stack)


def holding(planned: Planned, number: int, folder: Path, tool: str = "hold_on") -> tuple[Goal, Plan]:
    """A goal of so many steps that run until the file `gate` is there."""
    args = f"path: {folder / 'begun'}, gate: {folder / 'gate'}"
    steps = "".join(f"  s{n}: {{tool: {tool}, args: {{{args}, word: s{n}}}}}\n" for n in range(number))
    return planned(f"goal: hold on\nsteps:\n{steps}")


def stop(processes: "list[Popen[bytes]]", signals: int) -> float:
    """Tell all of them so many times: seconds until the last has ended."""
    since = time.monotonic()
    for number in range(signals):
        for each in processes:
            each.send_signal(SIGTERM)
        if number < signals - 1:
            time.sleep(0.2)  # two signals at once are one
    for each in processes:
        each.wait(WAIT)
    return time.monotonic() - since


class Case(NamedTuple):
    """bound: seconds that the workers may take to end."""

    signals: int
    tool: str
    bound: float


@pytest.mark.parametrize("case", [Case(1, "hold_on", GRACE), Case(2, "hold_on", SOON), Case(2, "hold_on_deaf", SOON)])
def test_a_fleet_that_is_scaled_to_zero_under_load_loses_nothing(
    both: tuple[EmbeddedFleet, Fleet],
    live: Live,
    workers: Workers,
    planned: Planned,
    tmp_path: Path,
    case: Case,
) -> None:
    """R32: 200 steps run when all workers are told to stop; new ones run them at once, and none counts as a loss."""
    fleet, client = both
    first = [workers.start(name, STEPS // 2) for name in ("a", "b")]
    goal, plan = holding(planned, STEPS, tmp_path, case.tool)
    handle = client.submit(goal, plan=plan)
    until(lambda: len(lines(tmp_path / "begun")) == STEPS)
    assert stop(first, case.signals) < case.bound + LEASE / 2  # on a busy machine
    assert live.client.zcard(f"{live.keys.namespace}:leases:main") == 0
    assert {s.state for s in live.runs.states(handle.run_id).values()} == {"ready", "joining"}
    for name in ("c", "d"):
        workers.start(name, STEPS // 2)
    since = time.monotonic()
    until(lambda: len(lines(tmp_path / "begun")) == 2 * STEPS)
    assert time.monotonic() - since < LEASE
    (tmp_path / "gate").touch()
    assert client.result(handle.goal_id, WAIT).status is RunStatus.SUCCEEDED
    events = list(client.watch(handle.goal_id, timeout=30))
    assert EventType.STEP_LOST not in {event.type for event in events}
    assert findings(fleet, [handle.run_id]) == ()


def test_the_steps_of_a_worker_that_stops_run_on_another_at_once(
    both: tuple[EmbeddedFleet, Fleet], workers: Workers, planned: Planned, tmp_path: Path
) -> None:
    """R32: within seconds of the second signal, though the lease is much longer."""
    fleet, client = both
    stopped = workers.start("e", 50)
    goal, plan = holding(planned, 50, tmp_path)
    handle = client.submit(goal, plan=plan)
    until(lambda: len(lines(tmp_path / "begun")) == 50)
    workers.start("f", 50)
    since = time.monotonic()
    for _ in range(2):
        stopped.send_signal(SIGTERM)
        time.sleep(0.2)
    until(lambda: len(lines(tmp_path / "begun")) == 100)
    seconds = time.monotonic() - since
    print(f"50 steps ran elsewhere after {seconds:.1f} s")  # noqa: T201
    assert seconds < LEASE
    (tmp_path / "gate").touch()
    assert client.result(handle.goal_id, WAIT).status is RunStatus.SUCCEEDED
    assert findings(fleet, [handle.run_id]) == ()


@pytest.mark.parametrize("hurried", [False, True])
def test_a_fleet_that_is_stopped_in_the_middle_goes_on_when_it_is_started_again(
    planned: Planned, tmp_path: Path, *, hurried: bool
) -> None:
    """R32, R5: on the same folder, with a Redis of its own; what had ended is not run again, and nothing is a loss."""
    settings = settings_for(tmp_path / "fleet", "redis://x", grace=GRACE, lease=LEASE).model_copy(
        update={"redis_url": None}
    )
    quick = "".join(f"  q{n}: {{tool: touch, args: {{path: {tmp_path / 'quick'}, word: q{n}}}}}\n" for n in range(5))
    args = f"path: {tmp_path / 'begun'}, gate: {tmp_path / 'gate'}"
    needs = ", ".join(f"q{n}" for n in range(5))
    goal, plan = planned(
        f"goal: go on\nsteps:\n{quick}"
        f"  a: {{tool: hold_on, args: {{{args}, word: a}}, needs: [{needs}]}}\n"
        f"  b: {{tool: hold_on_deaf, args: {{{args}, word: b}}, needs: [{needs}]}}\n"
    )
    with EmbeddedFleet(settings, backoff=Backoff(base=0.05, cap=0.2)) as fleet:
        fleet.wait_ready()
        with Fleet.connect(fleet.settings) as client:
            handle = client.submit(goal, plan=plan)
        until(lambda: len(lines(tmp_path / "begun")) == 2)
        since = time.monotonic()
        if hurried:
            fleet.hurry()
    assert time.monotonic() - since < GRACE + 5
    with EmbeddedFleet(settings, backoff=Backoff(base=0.05, cap=0.2)) as fleet:
        fleet.wait_ready()
        until(lambda: len(lines(tmp_path / "begun")) == 4)
        (tmp_path / "gate").touch()
        with Fleet.connect(fleet.settings) as client:
            assert client.result(handle.goal_id, WAIT).status is RunStatus.SUCCEEDED
            events = list(client.watch(handle.goal_id, timeout=30))
        assert findings(fleet) == ()
    assert len(lines(tmp_path / "quick")) == 5
    assert EventType.STEP_LOST not in {event.type for event in events}
