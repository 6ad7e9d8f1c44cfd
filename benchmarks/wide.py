"""One run of 50,000 independent steps between a root and a join: does the join fire once, does any script block Redis?

python -m benchmarks.wide [--steps 50000]

Prints steps a second, Redis memory a step, and every command that took Redis longer than 10 ms (SLOWLOG).
"""

import argparse
import tempfile
import time
from pathlib import Path

import redis
from pydantic import SecretStr

from benchmarks.workloads import fan, plan_of
from fleet.client import Fleet
from fleet.core.budget import Budget
from fleet.core.events import EventType
from fleet.core.goal import Goal
from fleet.embedded.fleet import EmbeddedFleet
from fleet.embedded.server import RedisServer
from fleet.settings import Settings

SLOW = 10_000
"""Microseconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50_000)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer.start(Path(folder) / "redis")
        settings = Settings(
            data=Path(folder) / "fleet",
            redis_url=SecretStr(server.url),
            tools="fleet.tools.builtin.testing_aids",
            flower=False,
            log_level="WARNING",
        )
        try:
            with EmbeddedFleet(settings) as fleet:
                fleet.wait_ready()
                with Fleet.connect(fleet.settings) as client:
                    pursue(client, server.url, steps)
        finally:
            server.stop()


def pursue(client: Fleet, url: str, steps: int) -> None:
    watch = redis.Redis.from_url(url, decode_responses=True)
    client.result(client.submit(Goal(objective="first"), plan=plan_of(fan(10))).goal_id, 60)
    watch.config_set("slowlog-log-slower-than", SLOW)
    watch.slowlog_reset()
    memory = watch.info("memory")["used_memory"]
    began = time.perf_counter()
    handle = client.submit(Goal(objective="wide", budget=Budget(steps=steps + 2)), plan=plan_of(fan(steps)))
    accepted = time.perf_counter() - began
    end = client.result(handle.goal_id, 1800)
    wall = time.perf_counter() - began
    joins = [e for e in client.watch(handle.goal_id) if e.type is EventType.STEP_STARTED and e.step == "end"]
    used = watch.info("memory")["used_memory"] - memory
    slow = watch.slowlog_get(1000)
    print(f"{end.status.value}: {steps} steps in {wall:.1f} s ({steps / wall:.0f}/s), accepted in {accepted:.1f} s")
    print(f"the join was started {len(joins)} time(s); Redis holds {used / steps:.0f} bytes a finished step")
    print(f"commands over {SLOW // 1000} ms: {len(slow)}")
    for entry in slow[:20]:
        print(f"  {entry['duration'] / 1000:.1f} ms  {str(entry['command'])[:80]}")
    watch.close()


if __name__ == "__main__":
    main()
