"""What a batch came to, beside what the data say it must come to."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from labels import right
from pursue import Pursued
from reference import parse, records

from fleet.core.events import EventType
from fleet.store.sql.ledger import CallRow

TOOLS = ("search", "extract", "calc", "pick")
CALLED = ("succeeded", "failed")


@dataclass(frozen=True, kw_only=True)
class Score:
    """Answers and calls of a set. calls: by tool, of the steps that were run; second: calls in second plans.

    attempts: how often tool steps were started, which is the number of calls unless workers died.
    """

    goals: int
    right: int
    calls: Counter[str]
    attempts: int
    second: int
    joins: int

    @property
    def total(self) -> int:
        return sum(self.calls.values())


def expected(which: str) -> Score:
    """What the data say: `golden` or `replan`."""
    found = records(f"{which}.jsonl")
    rounds = [[{"plan": record["plan"], "results": []}] if which == "golden" else record["rounds"] for record in found]
    calls = Counter(tool for each in rounds for past in each for tool in _recorded(past))
    second = sum(len(parse(each[1]["plan"])) for each in rounds if len(each) > 1)
    joins = sum(map(len, rounds))
    total = sum(calls.values())
    return Score(goals=len(found), right=len(found), calls=calls, attempts=total, second=second, joins=joins)


def score(pursued: Sequence[Pursued]) -> Score:
    """What a fleet made of the goals of one set."""
    steps = [(run, step) for run in pursued for plan in run.plans for step in plan.steps]
    ended = {
        (run.run_id, e.step): e.data["status"] for run in pursued for e in run.events if e.type is EventType.STEP_ENDED
    }
    started = Counter((run.run_id, e.step) for run in pursued for e in run.events if e.type is EventType.STEP_STARTED)
    return Score(
        goals=len(pursued),
        right=len(pursued) - len(wrong(pursued)),
        calls=Counter(step.tool for run, step in steps if ended.get((run.run_id, step.id)) in CALLED),
        attempts=sum(started[run.run_id, step.id] for run, step in steps),
        second=sum(len(plan.steps) for run in pursued for plan in run.plans if plan.version == 2),
        joins=sum(row.state == "done" for run in pursued for row in run.rows if row.key.step.startswith("join.")),
    )


def wrong(pursued: Iterable[Pursued]) -> list[Pursued]:
    """Those that did not end in the answer of their label."""
    return [run for run in pursued if not right(str(run.end.answer), run.goal.labels["label"])]


def takeovers(pursued: Iterable[Pursued]) -> int:
    """How often a step was taken back from a worker that was lost."""
    return sum(event.type is EventType.STEP_LOST for run in pursued for event in run.events)


def reissued(pursued: Iterable[Pursued]) -> list[CallRow]:
    """Calls that were open when their worker died, and were issued again."""
    return [row for run in pursued for row in run.rows if row.reissues]


def issues(logs: Path) -> Counter[str]:
    """How often the scripted model was asked, by the key of the call, as it told itself in the workers' logs."""
    said = (line for path in sorted(logs.glob("w*.log*")) for line in path.read_text(errors="replace").splitlines())
    return Counter(message.removeprefix("asked: ") for message in map(_message, said) if message.startswith("asked: "))


def done_again(pursued: Iterable[Pursued], witnessed: Counter[str]) -> list[CallRow]:
    """Calls that were issued again although their row was done.

    The ledger counts a try only while the row is not done: the first one, one after a failure (`attempts`), one while
    the end was unknown (`reissues`). So whatever the model was asked beyond these was asked after it was done.
    """
    rows = [row for run in pursued for row in run.rows]
    return [row for row in rows if witnessed[row.idempotency_key] > row.attempts + row.reissues]


def _recorded(past: dict[str, object]) -> list[str]:
    """The tools that a recorded round calls: those of all its lines but the skipped ones."""
    results: Iterable[dict[str, object]] = past["results"]  # type: ignore[assignment]
    skipped = {str(result["id"]) for result in results if result["status"] == "skipped"}
    return [call.tool for call in parse(str(past["plan"])) if call.id not in skipped]


def _message(line: str) -> str:
    try:
        said = json.loads(line)
    except ValueError:
        return ""
    return str(said.get("message", "")) if isinstance(said, dict) else ""
