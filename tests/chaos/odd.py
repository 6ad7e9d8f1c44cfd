"""Scenarios in which a worker is unlike the others: by its clock, its memory, its release."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from signal import SIGTERM

from sqlalchemy import inspect

from tests.chaos.extra import Extra, another_worker, steps_by
from tests.chaos.load import Shaped, planned
from tests.chaos.rig import Rig
from tests.chaos.scenario import Scenario, Size
from tests.chaos.stage import Stage, until

ROOT = Path(__file__).parents[2]
HOURS = 2 * 3600
SHIFT = '''"""Sets this process's clock {seconds} s off, as far as Python code sees it; the monotonic one goes on."""

import datetime
import time

real, real_ns = time.time, time.time_ns
time.time = lambda: real() + {seconds}
time.time_ns = lambda: real_ns() + {seconds} * 10**9


class Shifted(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls):
        return cls.fromtimestamp(time.time(), datetime.timezone.utc).replace(tzinfo=None)


datetime.datetime = Shifted
'''
NEWER = "-- of a newer release\n"
MIGRATION = '''"""A column of a newer release."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{newest}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("goals", sa.Column("newer", sa.Integer, nullable=True))
'''
CODE = ("fleet", "tasks", "scheduler")
MEMORY = 400_000_000
"""Bytes that a worker may take beyond what it has."""


def clocks_off(stage: Stage, size: Size) -> None:
    """Two workers more, one ahead and one behind; nobody's lease depends on a worker's clock."""
    with ExitStack() as stack:
        for name, seconds in (("ahead", HOURS), ("behind", -HOURS)):
            folder = stage.rigged.folder / f"clock-{name}"
            folder.mkdir(exist_ok=True)
            (folder / "sitecustomize.py").write_text(SHIFT.format(seconds=seconds))
            stack.enter_context(another_worker(stage, Extra(name, environment={"PYTHONPATH": str(folder)})))
        with stage.under_load(size.goals):
            for name in ("ahead", "behind"):
                until(lambda name=name: steps_by(stage, name) > 0, f"the worker {name} to run something")  # type: ignore[misc]
            stage.pause(size.seconds)
        stage.settled()
        for name in ("ahead", "behind"):
            stage.faults[f"steps by a clock {name}"] += steps_by(stage, name) if _hours_off(stage, name) else 0


def _hours_off(stage: Stage, name: str) -> bool:
    """Whether the times on a worker's log are those of another hour."""
    log = (stage.fleet.settings.data / "logs" / f"{name}.log").read_text()
    told = datetime.fromisoformat(log.partition('"at": "')[2].partition('"')[0])
    return abs(told.timestamp() - time.time()) > HOURS / 2


def out_of_memory(stage: Stage, size: Size) -> None:
    """A step that takes more than its worker may have: the worker is killed, the step and its neighbours run again."""
    for number in range(size.rounds):
        stage.all_serve()
        gorge = planned(
            {"a": Shaped((), "gorge", 0), "b": Shaped(("a",), "work", 10)}, stage.rigged.effects, f"gorge {number}"
        )
        before = sum(stage.fleet.counts().values())
        with _limited(stage) as limited:
            stage.some(size.goals)
            stage.submit([gorge])
            until(lambda before=before: sum(stage.fleet.counts().values()) > before, "a worker to be killed")  # type: ignore[misc]
        stage.mark(f"worker killed for its memory ({limited})")
        stage.settled()
    with stage.server() as admin:
        admin.config_set("maxmemory", 1)
        stage.mark("Redis at maxmemory")
        accepted = stage.some(size.goals)
        assert not any(each.handle.launched for each in accepted)
        stage.pause(size.seconds)
        admin.config_set("maxmemory", 0)
        stage.settled()
        stage.faults["keys evicted"] += int(admin.info("stats")["evicted_keys"])


@contextmanager
def _limited(stage: Stage) -> Iterator[str]:
    """Workers that are killed where they take too much memory: by the kernel where we may, else by themselves."""
    pids = [stage.fleet.pids()[name] for name in stage.workers()]
    group = Path("/sys/fs/cgroup/memory") / f"fleet-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        (stage.rigged.folder / "limit").write_text(str(MEMORY))
        yield "by its own watch"
        (stage.rigged.folder / "limit").unlink()
        return
    try:
        (group / "memory.limit_in_bytes").write_text(str(MEMORY))
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        yield "by the kernel"
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(pid)
        group.rmdir()


def upgraded(stage: Stage, size: Size) -> None:
    """Workers of a newer release come under load, with scripts and tables of their own, and go again."""
    newer = _newer_release(stage)
    with stage.under_load(size.goals):
        stage.pause(1.0)
        with ExitStack() as stack:
            started = [stack.enter_context(another_worker(stage, Extra(name, code=newer))) for name in ("new1", "new2")]
            until(lambda: steps_by(stage, "new1") + steps_by(stage, "new2") > 0, "new code to run something")
            stage.mark("newer workers came")
            for name in stage.workers():
                before = stage.fleet.restarts(name)
                stage.fleet.kill(name, SIGTERM)
                stage.restarted(name, before)
                stage.mark("older workers replaced")
            stage.pause(size.seconds)
            for each in started:
                each.send_signal(SIGTERM)
                each.wait(60)
            stage.mark("newer workers went")
        stage.pause(1.0)
    stage.settled()
    stage.faults["steps by new code"] += steps_by(stage, "new1") + steps_by(stage, "new2")
    stage.faults["steps by old code"] += steps_by(stage, "w1") + steps_by(stage, "w2")
    with stage.server() as admin:
        stage.faults["libraries side by side"] += len(admin.function_list()) > 1
    with stage.record.db.read() as connection:
        columns = {column["name"] for column in inspect(connection).get_columns("goals")}
    stage.faults["newer tables"] += "newer" in columns


def _newer_release(stage: Stage) -> Path:
    """A copy of the code whose scripts have another digest, and so another library, and with a column more."""
    copy = stage.rigged.folder / "newer"
    for name in CODE:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    script = copy / "fleet" / "store" / "lua" / "claim.lua"
    script.write_text(NEWER + script.read_text())
    versions = copy / "fleet" / "store" / "sql" / "migrations" / "versions"
    newest = max(path.name[1:5] for path in versions.glob("v[0-9]*.py"))
    (versions / "v9999_newer.py").write_text(MIGRATION.format(newest=newest))
    migrate = versions.parents[1] / "migrate.py"
    migrate.write_text(migrate.read_text().replace(f"HEAD = {int(newest)}\n", "HEAD = 9999\n"))
    return copy


ODD = (
    Scenario(
        number=17,
        name="workers whose clocks are two hours off, both ways",
        play=clocks_off,
        fired=("steps by a clock ahead", "steps by a clock behind"),
        never=("takeovers",),
        short=Size(goals=12, seconds=2),
        long=Size(goals=24, seconds=60, rig=Rig(lease=15.0, heartbeat=3.0, sweep=0.5)),
    ),
    Scenario(
        number=24,
        name="worker out of memory; Redis at maxmemory",
        play=out_of_memory,
        fired=("takeovers", "Redis at maxmemory"),
        never=("keys evicted",),
        recovery="takeover",
        short=Size(goals=4, seconds=2),
        long=Size(goals=16, rounds=3, seconds=20, rig=Rig(lease=15.0, heartbeat=3.0, sweep=0.5)),
    ),
    Scenario(
        number=25,
        name="rolling upgrade and back, old and new code together",
        play=upgraded,
        fired=("steps by new code", "steps by old code", "libraries side by side", "newer tables"),
        never=("takeovers",),
        recovery="progress",
        short=Size(goals=12, seconds=2),
        long=Size(goals=24, seconds=30, rig=Rig(lease=15.0, heartbeat=3.0, sweep=0.5)),
    ),
)
