"""What is on record of runs that were pursued, read for a check."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from fleet.core.events import Event
from fleet.core.ids import Fence, RunId, StepId
from fleet.core.outcome import Outcome
from fleet.core.plan import Step
from fleet.core.value import Value
from fleet.store.sql import evidence
from fleet.store.sql.evidence import Closed
from fleet.store.sql.goals import GoalRecord
from fleet.store.sql.ledger import CallRow
from fleet.store.sql.record import Record

PAGE = 1000


class Rule(StrEnum):
    """What has to hold of every run, whatever died."""

    ENDED_ONCE = "ended_once"
    ONE_OUTCOME = "one_outcome"
    FENCES_GROW = "fences_grow"
    NEEDS_FIRST = "needs_first"
    NO_GAP = "no_gap"
    NOTHING_AFTER_END = "nothing_after_end"
    WITHIN_BUDGET = "within_budget"
    USAGE_ADDS_UP = "usage_adds_up"
    NO_CALL_AGAIN = "no_call_again"
    NO_SECRET = "no_secret"  # noqa: S105 - the name of a rule


class Finding(Value):
    """A rule that was broken. step: empty where it is the run's; evidence: what was seen, for people."""

    rule: Rule
    run: RunId
    step: StepId = StepId("")
    evidence: str

    def __str__(self) -> str:
        return f"{self.rule}: run {self.run}{f' step {self.step}' if self.step else ''}: {self.evidence}"


class Text(NamedTuple):
    """A text that somebody may read. sink: where it stands, such as `calls` or `worker.log`."""

    sink: str
    step: StepId
    text: str


@dataclass(frozen=True, kw_only=True)
class RunHistory:
    """One run: its goal with its end, its steps by id, and what is on record of them.

    events: as they were filed, all epochs. calls: the ledger's rows. closed: when each of them was closed.
    """

    run: RunId
    goal: GoalRecord
    steps: Mapping[StepId, Step] = field(default_factory=dict)
    outcomes: Mapping[StepId, Outcome] = field(default_factory=dict)
    fences: Mapping[StepId, Fence] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    calls: tuple[CallRow, ...] = ()
    closed: tuple[Closed, ...] = ()
    texts: tuple[Text, ...] = ()


@dataclass(frozen=True, kw_only=True)
class History:
    """Runs, and what was seen outside of the record.

    asked: how often each idempotency key reached the provider, by the provider's own account (None: nobody counted).
    secrets: values that must stand nowhere, by name. texts: further places to look for them, such as logs, by name.
    """

    runs: tuple[RunHistory, ...]
    asked: Mapping[str, int] | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        record: Record,
        runs: Iterable[str] | None = None,
        *,
        asked: Mapping[str, int] | None = None,
        secrets: Mapping[str, str] | None = None,
        texts: Mapping[str, str] | None = None,
    ) -> "History":
        """runs: those to look at (None: all). Raises StoreUnreachable, UnknownGoal."""
        wanted = evidence.runs(record) if runs is None else [RunId(run) for run in runs]
        found = tuple(_run(record, run) for run in wanted)
        return cls(runs=found, asked=asked, secrets=secrets or {}, texts=texts or {})


def _run(record: Record, run: RunId) -> RunHistory:
    noted = {step.id: step for _, step in record.plans.noted(run)}
    planned = {step.id: step for plan in record.plans.all(run) for step in plan.steps}
    return RunHistory(
        run=run,
        goal=record.goals.of_run(run),
        steps=noted | planned,
        outcomes={step: outcome for page in record.outcomes.pages(run) for step, outcome in page},
        fences=evidence.fences(record, run),
        events=tuple(_events(record, run)),
        calls=tuple(record.ledger.rows(run)),
        closed=tuple(evidence.closed(record, run)),
        texts=tuple(Text(sink, StepId(step), text) for sink, step, text in evidence.texts(record, run)),
    )


def _events(record: Record, run: RunId) -> list[Event]:
    found: list[Event] = []
    while page := record.events.read(run, found[-1].id if found else "", PAGE):
        found += page
    return found
