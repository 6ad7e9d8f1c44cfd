"""What a scenario can do: put load on a fleet, harm its processes, and wait."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

import redis

from fleet.app import make_app
from fleet.core.events import EventType
from fleet.engine.submit import Handle
from fleet.errors import FleetFault
from fleet.store.live import Live
from fleet.store.shapes import Wake
from tests.chaos.load import Load, Loads
from tests.chaos.rig import Rigged
from tests.messages import send

PATIENCE = 120.0
"""Seconds in which every goal has to end once the faults are over."""
LOOK = 0.02


@dataclass(frozen=True)
class Pursued:
    """A goal that was accepted, and what it has to come to."""

    load: Load
    handle: Handle


def until(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """Wait for a condition. what: says what was waited for in vain."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(LOOK)


class Stage:
    """One scenario on a fleet. faults: how often each kind fired. marks: when (seconds since 1970) each was played."""

    def __init__(self, rigged: Rigged, seed: int) -> None:
        self.rigged = rigged
        self.fleet, self.client, self.record = rigged.fleet, rigged.client, rigged.record
        self.chance = random.Random(seed)  # noqa: S311 - chance, no secret
        self.faults: Counter[str] = Counter()
        self.marks: list[float] = []
        self.goals: list[Pursued] = []
        self.loads = Loads(seed, rigged.effects)
        self.over = threading.Event()
        self._logs = {path: path.stat().st_size for path in self._log_files()}

    def mark(self, fault: str, times: int = 1) -> None:
        """A fault was played just now."""
        self.faults[fault] += times
        self.marks.append(time.time())

    def submit(self, loads: Sequence[Load]) -> list[Pursued]:
        """Accept goals, all of them."""
        answers = self.client.submit_many([(load.goal, load.plan) for load in loads])
        taken = [
            Pursued(load, answer) for load, answer in zip(loads, answers, strict=True) if isinstance(answer, Handle)
        ]
        assert len(taken) == len(loads), [answer for answer in answers if isinstance(answer, FleetFault)]
        self.goals += taken
        return taken

    def some(self, number: int, kind: str = "") -> list[Pursued]:
        """So many goals, of one of load.KINDS or of all shapes."""
        return self.submit([self.loads.next(kind) for _ in range(number)])

    @contextmanager
    def under_load(self, open_goals: int) -> Iterator[None]:
        """Keep so many goals open as long as the block lasts."""
        self.some(open_goals)
        feeding = threading.Thread(target=self._feed, args=(open_goals,), daemon=True)
        over, self.over = self.over, threading.Event()
        feeding.start()
        try:
            yield
        finally:
            self.over.set()
            feeding.join()
            self.over = over

    def _feed(self, open_goals: int) -> None:
        while not self.over.wait(0.1):
            room = open_goals - self.record.goals.count_open("default")
            if room > 0:
                self.some(room)

    def pause(self, seconds: float) -> None:
        """Let the load run on for a while."""
        threading.Event().wait(seconds)

    def settled(self, seconds: float = PATIENCE) -> None:
        """Wait until every goal has ended, and what its events told is on record."""
        left = {each.handle.run_id for each in self.goals}
        end = time.monotonic() + seconds
        while left:
            left = {run for run in left if not self._is_filed(run)}
            assert time.monotonic() < end, f"{len(left)} of {len(self.goals)} goals have not ended: {sorted(left)[:3]}"
            time.sleep(LOOK)

    def _is_filed(self, run: str) -> bool:
        last = self.record.events.last(run)  # type: ignore[arg-type]
        if not last:
            return False
        epoch, _, number = last.partition("-")
        newest = self.record.events.read(run, f"{epoch}-{int(number) - 1}")  # type: ignore[arg-type]
        return any(event.type is EventType.ENDED for event in newest)

    def workers(self) -> list[str]:
        """Those that are alive, by name."""
        return sorted(name for name in self.fleet.pids() if name.startswith("w"))

    def kill(self, name: str) -> None:
        self.fleet.kill(name, SIGKILL)
        self.mark(f"{'worker' if name.startswith('w') else name} killed")

    def freeze(self, name: str) -> None:
        self.fleet.kill(name, SIGSTOP)
        self.mark("worker frozen")

    def thaw(self, name: str) -> None:
        self.fleet.kill(name, SIGCONT)

    def restarted(self, name: str, before: int) -> None:
        """Wait until a process that died was started again, and all workers serve."""
        until(lambda: self.fleet.restarts(name) > before, f"{name} to be started again")
        self.all_serve()

    def all_serve(self) -> None:
        until(lambda: len(self.serving()) >= self.rigged.rig.workers, "the workers to serve", 60.0)

    def serving(self) -> list[str]:
        """Names of the workers that live, and whose heartbeat counts."""
        beating = {worker.name.rpartition(".")[2] for worker in self.live.workers()}
        return [name for name in self.workers() if str(self.fleet.pids().get(name)) in beating]

    @contextmanager
    def crash(self, point: str) -> Iterator[None]:
        """Whoever reaches the point first is killed there, by the end of the block. point: kind of step and name."""
        armed = self.rigged.points / point
        armed.touch()
        yield
        until(lambda: not armed.exists(), f"somebody to reach {point}")
        self.mark(f"killed {point.partition('.')[2].replace('_', ' ')}")

    def tell_again(self, goals: Sequence[Pursued], times: int) -> None:
        """Send the messages of all steps of these goals by hand, so many times, and wait until workers took them."""
        runs = [(each.handle.run_id, each.load.plan) for each in goals]
        self.send_again([Wake(run, step.id) for run, plan in runs if plan for step in plan.steps] * times)
        until(lambda: self.queued() == 0, "the messages to be taken")

    def send_again(self, wakes: Sequence[Wake]) -> None:
        """Send messages by hand, as Celery's own producer does."""
        app = make_app(self.redis_url, self.fleet.settings.namespace)
        send(app, wakes)
        app.close()
        self.faults["redeliveries"] += len(wakes)

    @property
    def redis_url(self) -> str:
        url = self.fleet.settings.redis_url
        assert url is not None
        return url.get_secret_value()

    @cached_property
    def live(self) -> Live:
        """The live state, by the link."""
        return Live.connect(self.redis_url, self.fleet.settings.namespace)

    @contextmanager
    def server(self) -> Iterator["redis.Redis"]:
        """A client of the server itself, which no harm to the link reaches."""
        client = redis.Redis.from_url(self.rigged.redis.url, decode_responses=True)
        yield client
        client.close()

    def queued(self) -> int:
        """Messages that no worker has taken."""
        with self.server() as client:
            return int(client.llen(f"{self.fleet.settings.namespace}:celery:lane.main"))  # type: ignore[arg-type]

    def close(self) -> None:
        if "live" in self.__dict__:
            self.live.close()

    def begun(self, goals: Sequence[Pursued]) -> int:
        """How many steps of these goals have started."""
        runs = {each.handle.run_id for each in goals}
        return sum(key.partition(":")[0] in runs for _, key in self.lines())

    def lines(self) -> list[list[str]]:
        """What the tools told so far: (word, key)."""
        path = self.rigged.effects
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def said(self, words: str) -> int:
        """How often a process of the fleet has said so since the scenario began."""
        return self.logs().count(words)

    def logs(self) -> str:
        """What the fleet's processes have said since the scenario began."""
        return "\n".join(
            path.read_bytes()[self._logs.get(path, 0) :].decode(errors="replace") for path in self._log_files()
        )

    def _log_files(self) -> list[Path]:
        return sorted((self.rigged.fleet.settings.data / "logs").glob("*.log"))
