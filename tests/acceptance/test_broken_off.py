"""A cancelled run's model calls end at once, and the ledger says what is true of them."""

import time
from contextlib import closing

import pytest

from fleet.client import Fleet
from fleet.core.goal import Goal
from fleet.core.ids import RunId
from fleet.core.run import EndReason, RunStatus
from fleet.embedded.fleet import EmbeddedFleet
from fleet.store.sql.record import Record
from tests.acceptance import script
from tests.acceptance.conftest import WAIT, until


@pytest.mark.parametrize(("objective", "step"), [(script.PONDER, "plan.1"), (script.JUDGE, "join.1")])
def test_a_model_call_ends_with_the_cancelled_run_that_made_it(
    shared: tuple[EmbeddedFleet, Fleet], objective: str, step: str
) -> None:
    """R22, R26: the slot is free soon after the worker's next heartbeat, and the call counts as made."""
    embedded, client = shared
    handle = client.submit(Goal(objective=objective))
    with closing(Record.open(embedded.settings.record_url)) as record:

        def asked() -> bool:
            return any(row.key.step == step for row in record.ledger.rows(RunId(handle.run_id)))

        until(asked)
        began = time.monotonic()
        client.cancel(handle.goal_id)
        end = client.result(handle.goal_id, WAIT)
        took = time.monotonic() - began
        (row,) = [row for row in record.ledger.rows(RunId(handle.run_id)) if row.key.step == step]
    assert (end.status, end.reason) == (RunStatus.CANCELLED, EndReason.CANCELLED)
    assert took < embedded.settings.heartbeat + 1.0
    status = client.status(handle.goal_id)
    assert {each.id: each.state for each in status.steps}[step] == "cancelled"
    assert row.state == "failed"
    assert row.failure is not None
    assert (row.failure.type, row.usage.calls) == ("broken_off", 1)
    assert status.usage.calls == (1 if step == "plan.1" else 2)
