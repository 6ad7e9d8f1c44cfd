"""All scenarios, by their numbers, and those that are to come with what they wait for."""

from tests.chaos.away import AWAY
from tests.chaos.odd import ODD
from tests.chaos.servers import SERVERS
from tests.chaos.workers import WORKERS

SCENARIOS = {scenario.number: scenario for scenario in (*WORKERS, *SERVERS, *AWAY, *ODD)}

TO_COME: dict[int, str] = {
    19: "event stream cut at random",
    20: "50 submissions with one key at once",
    21: "budget race with kills",
    22: "garbage, pickle, unknown task, unknown step, wrong tenant in the queue",
    23: "approval raced, replayed, stale, crashed",
}
"""Places of scenarios that nobody plays yet. Whoever adds one takes it from here."""
