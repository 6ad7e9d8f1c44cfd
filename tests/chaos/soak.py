"""`make soak`: half an hour of mixed faults on 2,000 goals, a table by minute, and the zeros of a single fault.

SOAK_MINUTES says how long, SOAK_GOALS how many (2,000 within 30 minutes, and as many a minute in a shorter time).
"""

import logging
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from statistics import median
from typing import NamedTuple

import psycopg

from tests.chaos.judge import judge
from tests.chaos.rig import Rig, Rigged, rigged
from tests.chaos.stage import Stage

RIG = Rig(workers=3, slots=8, lease=5.0, heartbeat=1.0, sweep=0.2, retention=20.0, own_sql=True)
SEED = 3
GOALS_A_MINUTE = 2000 / 30
PAUSES = (4.0, 10.0)
"""Seconds from the end of one fault to the next, at least and at most."""
ROOM = 1.5
"""By what factor the last third may be above the first, and SLACK beyond that: the first minute has few ended runs."""
SLACK = {"memory": 1_000_000, "keys": 200, "clients": 16, "connections": 8}
HEADER = (
    "| minute | goals accepted | open | faults | Redis used | keys | Redis clients | SQL connections |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


class Look(NamedTuple):
    """How the fleet stands. memory: bytes that Redis uses."""

    accepted: int
    open: int
    faults: int
    memory: int
    keys: int
    clients: int
    connections: int

    def row(self, minute: float) -> str:
        first, last = (self.accepted, self.open, self.faults), (self.keys, self.clients, self.connections)
        return f"| {' | '.join(map(str, (f'{minute:.1f}', *first, f'{self.memory / 1e6:.1f} MB', *last)))} |"


class Soak:
    """Goals come by bursts, each with a fault that chance has chosen."""

    def __init__(self, rigged: Rigged, minutes: float, goals: int) -> None:
        self.stage = Stage(rigged, SEED)
        self.looks: list[Look] = []
        self._rigged = rigged
        self._seconds = minutes * 60
        self._goals = goals
        self._faults: tuple[Callable[[], object], ...] = (
            *(self._worker_killed,) * 4,
            *(self._worker_frozen,) * 2,
            self._scheduler_killed,
            self._redis_killed,
            self._redis_frozen,
            self._flushed,
            self._reset,
            self._half_open,
            self._sql_restarted,
        )

    def run(self) -> None:
        began = time.monotonic()
        due, minute = began, began
        while (now := time.monotonic()) < began + self._seconds:
            if now >= minute:
                self._tell((minute - began) / 60)
                minute += min(60.0, self._seconds / 9)
            if now >= due:
                self._catch_up((now - began) / self._seconds)
                self.stage.chance.choice(self._faults)()
                due = time.monotonic() + self.stage.chance.uniform(*PAUSES)
            self.stage.pause(0.2)
        self._catch_up(1.0)
        self.stage.all_serve()
        self.stage.settled(600.0)
        self._tell((time.monotonic() - began) / 60)

    def _catch_up(self, part: float) -> None:
        """Hand in what is due, so that the fault that follows finds it under way. part: of the time that is over."""
        if (number := round(self._goals * part) - len(self.stage.goals)) > 0:
            self.stage.some(number)
            self.stage.pause(self.stage.chance.uniform(0.1, 0.6))

    def _tell(self, minute: float) -> None:
        look = self._look()
        self.looks.append(look)
        say(look.row(minute))

    def _look(self) -> Look:
        with self.stage.server() as admin:
            memory, clients = admin.info("memory"), admin.info("clients")
            keys = admin.dbsize()
        return Look(
            accepted=len(self.stage.goals),
            open=self.stage.record.goals.count_open("default"),
            faults=len(self.stage.marks),
            memory=int(memory["used_memory"]),
            keys=int(keys),
            clients=int(clients["connected_clients"]),
            connections=self._connections(),
        )

    def _connections(self) -> int:
        url = self.stage.fleet.settings.record_url
        folder = url.partition("?host=")[2].partition("&")[0]
        with psycopg.connect(host=folder, user="postgres", dbname="postgres") as connection:
            found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
            row = found.fetchone()
        return int(row[0]) - 1 if row else 0

    def _worker_killed(self) -> None:
        if workers := self.stage.workers():
            self.stage.kill(self.stage.chance.choice(workers))

    def _scheduler_killed(self) -> None:
        self.stage.kill("scheduler")

    def _worker_frozen(self) -> None:
        """Beyond its lease."""
        if not (workers := self.stage.workers()):
            return
        name = self.stage.chance.choice(workers)
        self.stage.freeze(name)
        self.stage.pause(self._rigged.rig.lease + 2)
        if name in self.stage.workers():
            self.stage.thaw(name)

    def _redis_killed(self) -> None:
        self._rigged.redis.stop(kill=True)
        self.stage.mark("Redis killed")
        self.stage.pause(self.stage.chance.uniform(0, 5))
        self._rigged.redis.start()

    def _redis_frozen(self) -> None:
        self._rigged.redis.process.send_signal(SIGSTOP)
        self.stage.mark("Redis frozen")
        self.stage.pause(self.stage.chance.uniform(1, 12))
        self._rigged.redis.process.send_signal(SIGCONT)

    def _flushed(self) -> None:
        with self.stage.server() as admin:
            admin.flushall()
        self.stage.mark("FLUSHALL")

    def _reset(self) -> None:
        self._rigged.link.reset()
        self.stage.mark("connections reset")

    def _half_open(self) -> None:
        self._rigged.link.lose()
        self.stage.mark("connections half-open")
        self.stage.pause(self.stage.chance.uniform(1, 8))
        self._rigged.link.mend()

    def _sql_restarted(self) -> None:
        sql = self._rigged.sql
        assert sql is not None
        sql.stop()
        self.stage.mark("PostgreSQL killed")
        self.stage.pause(self.stage.chance.uniform(0, 5))
        sql.start()


def not_flat(looks: list[Look]) -> list[str]:
    """What has grown: the median of the last third of a soak beside that of the first, the empty fleet left out."""
    busy = looks[1:-1]
    third = max(1, len(busy) // 3)
    grown = []
    for what, slack in SLACK.items():
        first, last = (median(getattr(look, what) for look in part) for part in (busy[:third], busy[-third:]))
        if last > first * ROOM + slack:
            grown.append(f"{what} grew from {first:g} to {last:g}")
    return grown


def main() -> int:
    logging.getLogger("fleet").addHandler(logging.NullHandler())  # what the producer says of parts that are away
    minutes = float(os.environ.get("SOAK_MINUTES", "30"))
    goals = int(os.environ.get("SOAK_GOALS", str(round(min(2000, GOALS_A_MINUTE * minutes)))))
    say(f"{goals} goals in {minutes:g} minutes, seed {SEED}\n\n{HEADER}")
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, rigged(RIG, Path(folder)) as made:
        soak = Soak(made, minutes, goals)
        soak.run()
        found = judge(soak.stage, "takeover")
        faults: Counter[str] = soak.stage.faults
        soak.stage.close()
    broken = [*found.broken, *not_flat(soak.looks), *([] if found.takeovers else ["no takeovers"])]
    say(f"\nfaults: {', '.join(f'{number} {fault}' for fault, number in sorted(faults.items()))}")
    say(f"goals {found.goals}, takeovers {found.takeovers}, attempts again {found.again}, fenced {found.fenced}")
    say(f"calls left open, made again {found.reissued}; writes in doubt {found.in_doubt}")
    say(f"taken over after {found.median:.1f} s (median), {found.longest:.1f} s (at most)")
    say("\n".join(f"BROKEN: {each}" for each in broken) or "holds")
    return 1 if broken else 0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
