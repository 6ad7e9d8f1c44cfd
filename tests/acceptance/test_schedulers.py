"""Several schedulers: one leads, another takes over within seconds, and two at once do no harm."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest

from fleet.client import Fleet
from fleet.core.events import EventType
from fleet.core.run import RunStatus
from fleet.embedded.fleet import EmbeddedFleet
from fleet.store.live import Live
from tests.acceptance.conftest import WAIT, Planned, lines, run_plan, until
from tests.fleets import running, settings_for
from tests.histories import findings
from tests.processes import process
from tests.servers import RedisProcess

TAKEOVER = 6.0
"""Seconds: a leader leads for 3, and whoever follows looks ten times a second; the rest is for a busy machine."""


@pytest.fixture(scope="module")
def both(
    redis_server: RedisProcess, new_record: Callable[[], str | None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[EmbeddedFleet, Fleet]]:
    """A fleet of two workers with two schedulers beside the one that its supervisor keeps, which is told to stop."""
    folder = tmp_path_factory.mktemp("schedulers")
    with running(settings_for(folder, redis_server.url, new_record())) as made:
        yield made


@pytest.fixture
def live(both: tuple[EmbeddedFleet, Fleet]) -> Iterator[Live]:
    url = both[0].settings.redis_url
    assert url is not None
    live = Live.connect(url.get_secret_value(), both[0].settings.namespace)
    yield live
    live.close()


def leader_of(live: Live) -> int | None:
    """The process id of the scheduler that leads."""
    name = live.client.get(live.keys.leader)
    return int(str(name).split(".")[-2]) if name else None


def followed(live: Live, before: int) -> float:
    """Seconds until another process leads."""
    since = time.monotonic()
    until(lambda: leader_of(live) not in (None, before))
    return time.monotonic() - since


RETRIED = "goal: retry\nsteps:\n  a: {{tool: flaky, args: {{path: {path}, failures: 1}}}}"
"""Only a sweep wakes a step that waits for its backoff."""


@pytest.mark.parametrize("fault", [SIGKILL, SIGSTOP])
def test_another_scheduler_takes_over_within_seconds(
    both: tuple[EmbeddedFleet, Fleet], live: Live, planned: Planned, tmp_path: Path, fault: int
) -> None:
    """R7: whether the leader was killed or stands still; one that goes on later finds that it leads no more."""
    fleet, client = both
    with process(fleet.settings, "scheduler", log=tmp_path / "second.log") as second:
        until(lambda: "scheduler is up" in (tmp_path / "second.log").read_text())
        until(lambda: leader_of(live) is not None)
        leader = leader_of(live)
        assert leader in (second.pid, fleet.pids()["scheduler"])
        os.kill(leader, fault)
        seconds = followed(live, leader)
        print(f"another scheduler led {seconds:.1f} s after signal {fault}")  # noqa: T201
        _, end = run_plan(client, planned, RETRIED.format(path=tmp_path / "tried"))
        if fault == SIGSTOP:
            os.kill(leader, SIGCONT)
            _, end = run_plan(client, planned, RETRIED.format(path=tmp_path / "tried again"))
        assert seconds < TAKEOVER
        assert end.status is RunStatus.SUCCEEDED
        assert leader_of(live) not in (None, leader)
    assert findings(fleet) == ()


@contextmanager
def deposed(live: Live) -> Iterator[Counter[str]]:
    """Whoever leads is deposed at once, so that all lead. Gives how often each has led."""
    over, led = threading.Event(), Counter[str]()

    def depose() -> None:
        while not over.wait(0.01):
            name = live.client.getdel(live.keys.leader)
            led.update([str(name)] if name else [])

    deposing = threading.Thread(target=depose)
    deposing.start()
    try:
        yield led
    finally:
        over.set()
        deposing.join()


def test_schedulers_that_all_lead_at_once_take_nothing_back_twice(
    both: tuple[EmbeddedFleet, Fleet], live: Live, planned: Planned, tmp_path: Path
) -> None:
    """R7: their sweeps interleave while workers are killed; each loss counts once, each step has one outcome."""
    fleet, client = both
    path = tmp_path / "touched"
    steps = "".join(
        f"  s{n}: {{tool: slow_touch, args: {{path: {path}, seconds: 0.3, word: s{n}}}}}\n" for n in range(24)
    )
    with process(fleet.settings, "scheduler", log=tmp_path / "second.log") as second, deposed(live) as led:
        until(lambda: any(f".{second.pid}." in name for name in led))
        goal, plan = planned(f"goal: many\nsteps:\n{steps}")
        handle = client.submit(goal, plan=plan)
        for number, name in enumerate(["w1", "w2", "w1"], start=1):
            until(lambda number=number: len(lines(path)) >= 6 * number)  # type: ignore[misc]
            fleet.kill(name)
        assert client.result(handle.goal_id, WAIT).status is RunStatus.SUCCEEDED
    assert len(led) >= 2, led
    events = list(client.watch(handle.goal_id, timeout=30))
    lost = Counter((e.step, e.data["losses"]) for e in events if e.type is EventType.STEP_LOST)
    assert lost.total() > 0, "the fault did not fire"
    assert max(lost.values()) == 1
    started = Counter(event.step for event in events if event.type is EventType.STEP_STARTED)
    assert started.total() == 24 + 1 + lost.total()
    assert findings(fleet) == ()
