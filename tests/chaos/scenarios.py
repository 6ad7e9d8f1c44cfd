"""All scenarios, by their numbers, and those that are to come with what they wait for."""

from tests.chaos.away import AWAY
from tests.chaos.odd import ODD
from tests.chaos.workers import WORKERS

SCENARIOS = {scenario.number: scenario for scenario in (*WORKERS, *AWAY, *ODD)}

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
    19: "event stream cut at random",
    20: "50 submissions with one key at once",
    21: "budget race with kills",
    22: "garbage, pickle, unknown task, unknown step, wrong tenant in the queue",
    23: "approval raced, replayed, stale, crashed",
}
"""Places of scenarios that nobody plays yet. Whoever adds one takes it from here."""
