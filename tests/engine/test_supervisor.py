"""The supervisor with real processes: restarts, backoff, an orderly end, and nobody left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from fleet.embedded.child import Backoff, ChildSpec, last_line
from fleet.embedded.supervisor import Supervisor

SLEEPER = "import time\nwhile True: time.sleep(60)"
DEAF = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\n" + SLEEPER
PARENT = (
    "import subprocess, sys\n"
    f"child = subprocess.Popen([sys.executable, '-c', {SLEEPER!r}])\n"
    "print(child.pid, flush=True)\nchild.wait()"
)


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "the condition did not come true"
        time.sleep(0.01)


def spec(folder: Path, name: str, code: str) -> ChildSpec:
    return ChildSpec(name=name, argv=(sys.executable, "-S", "-c", code), env={}, cwd=folder, log=folder / f"{name}.log")


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    kept = Supervisor(Backoff(base=0.05, cap=0.2))
    yield kept
    kept.stop(grace=0.0)


def test_a_child_that_dies_is_started_again_and_counted(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.keep(spec(tmp_path, "w1", SLEEPER))
    wait_for(lambda: "w1" in supervisor.pids())
    first = supervisor.pids()["w1"]
    assert supervisor.restarts("w1") == 0
    supervisor.kill("w1")
    wait_for(lambda: supervisor.pids().get("w1", first) != first)
    assert supervisor.restarts("w1") == 1
    assert not alive(first)


def test_one_childs_death_leaves_the_others_alone(supervisor: Supervisor, tmp_path: Path) -> None:
    for name in ("w1", "w2"):
        supervisor.keep(spec(tmp_path, name, SLEEPER))
    wait_for(lambda: len(supervisor.pids()) == 2)
    other = supervisor.pids()["w2"]
    supervisor.kill("w1")
    wait_for(lambda: supervisor.restarts("w1") == 1)
    assert supervisor.counts() == {"w1": 1, "w2": 0}
    assert supervisor.pids()["w2"] == other


def test_the_wait_between_restarts_doubles_up_to_a_cap_and_starts_over_after_health() -> None:
    backoff = Backoff()
    assert [backoff.delay(deaths) for deaths in (1, 2, 3, 6, 7, 500)] == [0.2, 0.4, 0.8, 6.4, 10.0, 10.0]
    from fleet.embedded.child import Child

    child = Child(spec=spec(Path(), "w1", ""), started=100.0)
    child.fail(101.0, backoff)
    child.fail(102.0, backoff)
    assert (child.deaths, child.due) == (2, pytest.approx(102.4))
    child.fail(110.0, backoff)
    assert (child.deaths, child.due) == (1, pytest.approx(110.2))


def test_a_child_that_cannot_run_is_tried_again_with_growing_waits(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.keep(spec(tmp_path, "w1", "raise SystemExit('no such thing')"))
    wait_for(lambda: supervisor.restarts("w1") >= 2)
    assert last_line(tmp_path / "w1.log") == "no such thing"


def test_a_folder_that_went_away_does_not_end_the_supervisor(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.keep(spec(tmp_path / "gone", "w1", SLEEPER))
    supervisor.keep(spec(tmp_path, "w2", SLEEPER))
    wait_for(lambda: supervisor.restarts("w1") >= 2)
    assert list(supervisor.pids()) == ["w2"]


def test_stop_lets_children_end_by_themselves(supervisor: Supervisor, tmp_path: Path) -> None:
    code = (
        "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: (print('drained', flush=True), sys.exit(0)))\n"
        "print('up', flush=True)\n" + SLEEPER
    )
    supervisor.keep(spec(tmp_path, "w1", code))
    wait_for(lambda: last_line(tmp_path / "w1.log") == "up")
    supervisor.stop(grace=20.0)
    assert last_line(tmp_path / "w1.log") == "drained"
    assert supervisor.pids() == {}
    assert supervisor.restarts("w1") == 0


def test_stop_kills_a_deaf_child_after_the_grace(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.keep(spec(tmp_path, "w1", DEAF))
    wait_for(lambda: last_line(tmp_path / "w1.log") == "deaf")
    pid = supervisor.pids()["w1"]
    supervisor.stop(grace=0.3)
    assert not alive(pid)


def test_a_second_signal_cuts_the_grace_short(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.keep(spec(tmp_path, "w1", DEAF))
    wait_for(lambda: last_line(tmp_path / "w1.log") == "deaf")
    supervisor.hurry()
    began = time.monotonic()
    supervisor.stop(grace=60.0)
    assert time.monotonic() - began < 30.0


def test_a_childs_own_children_die_with_it(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.keep(spec(tmp_path, "w1", PARENT))
    wait_for(lambda: last_line(tmp_path / "w1.log"))
    grandchild = int(last_line(tmp_path / "w1.log"))
    supervisor.kill("w1")
    wait_for(lambda: supervisor.restarts("w1") == 1)
    assert not alive(grandchild)


def test_a_name_is_had_once(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.keep(spec(tmp_path, "w1", SLEEPER))
    with pytest.raises(ValueError, match="w1 is kept already"):
        supervisor.keep(spec(tmp_path, "w1", SLEEPER))


def test_nobody_is_left_behind_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom fleet.embedded.child import ChildSpec\n"
        "from fleet.embedded.supervisor import Supervisor\nfolder = Path(sys.argv[1])\nkept = Supervisor()\n"
        "for name in ('w1', 'w2'):\n"
        f"    kept.keep(ChildSpec(name=name, argv=(sys.executable, '-c', {DEAF!r}), env={{}}, cwd=folder,"
        " log=folder / f'{name}.log'))\n"
        "while len(kept.pids()) < 2: time.sleep(0.01)\n"
        "print(*kept.pids().values(), flush=True)\ntime.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            pids = [int(word) for word in parent.stdout.readline().split()]
            assert len(pids) == 2
            wait_for(lambda: all(last_line(tmp_path / f"{name}.log") == "deaf" for name in ("w1", "w2")))
        finally:
            os.kill(parent.pid, signal.SIGKILL)
    wait_for(lambda: not any(alive(pid) for pid in pids))
