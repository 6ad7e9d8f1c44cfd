"""All scenarios, by their numbers, and those that are to come with what they wait for."""

from tests.chaos.workers import WORKERS

SCENARIOS = {scenario.number: scenario for scenario in (*WORKERS,)}

TO_COME: dict[int, str] = {
    3: "pool child killed",
    4: "killed after an effect, before the journal",
    5: "killed after the commit, and the same message sent again",
    6: "SIGSTOP beyond the lease, takeover, SIGCONT",
    7: "the same message sent again by hand",
    8: "Redis kill -9, AOF everysec",
    9: "FLUSHALL",
    10: "Redis restored from an old AOF",
    11: "failover to a lagging replica",
    12: "Redis away for 60 s while goals come in",
    13: "CLIENT PAUSE 8 s; SIGSTOP of Redis 12 s",
    14: "half-open connection",
    15: "worker cut from SQL only",
    16: "PostgreSQL restarted every 5 to 40 s",
    17: "worker clock two hours off, both ways",
    18: "disk full, Redis and SQL",
    19: "event stream cut at random",
    20: "50 submissions with one key at once",
    21: "budget race with kills",
    22: "garbage, pickle, unknown task, unknown step, wrong tenant in the queue",
    23: "approval raced, replayed, stale, crashed",
    24: "child out of memory; Redis at maxmemory",
    25: "rolling upgrade, old and new code and schema together, under load",
}
"""Places of scenarios that nobody plays yet. Whoever adds one takes it from here."""
