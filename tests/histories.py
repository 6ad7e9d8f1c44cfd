"""What a fleet's record and logs say of its runs, held against what was promised."""

import re
import time
from collections import Counter
from collections.abc import Iterable

from fleet.embedded.fleet import EmbeddedFleet
from fleet.store.sql import evidence
from fleet.store.sql.record import Record
from fleet.testing import Finding, History, check_history

ASKED = re.compile(r'asked: ([^\s"]+)')
"""What the scripted model says of each call: a witness apart from the ledger."""


def run_ids(fleet: EmbeddedFleet) -> set[str]:
    record = Record.open(fleet.settings.record_url)
    try:
        return set(evidence.runs(record))
    finally:
        record.close()


def findings(fleet: EmbeddedFleet, runs: Iterable[str] | None = None) -> tuple[Finding, ...]:
    """What was not as promised, of these runs or of all, once their events are filed."""
    record = Record.open(fleet.settings.record_url)
    try:
        wanted = evidence.runs(record) if runs is None else sorted(runs)
        _filed(record, wanted)
        logs = {path.name: path.read_text(errors="replace") for path in (fleet.settings.data / "logs").glob("*.log*")}
        asked = Counter(key for text in logs.values() for key in ASKED.findall(text))
        return check_history(History.read(record, wanted, asked=asked, secrets=secrets_of(fleet), texts=logs))
    finally:
        record.close()


def secrets_of(fleet: EmbeddedFleet) -> dict[str, str]:
    folder = fleet.settings.secrets
    return {path.name: path.read_text().strip() for path in folder.iterdir()} if folder and folder.is_dir() else {}


def _filed(record: Record, runs: Iterable[str], seconds: float = 20.0) -> None:
    """A sweep files the events of a run that has ended."""
    until = time.monotonic() + seconds
    left = set(runs)
    while left and time.monotonic() < until:
        left = {run for run in left if not record.events.last(run)}  # type: ignore[arg-type]
        time.sleep(0.02)
    assert not left, f"events of {sorted(left)} were not filed"
