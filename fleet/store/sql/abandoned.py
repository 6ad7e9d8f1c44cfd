"""Calls that nobody will close any more: those left open in runs that have ended. They are closed as calls in doubt."""

from datetime import timedelta

from sqlalchemy import Connection, func, select, update

from fleet.core.budget import Usage
from fleet.core.ids import RunId
from fleet.core.outcome import Failure, FailureClass
from fleet.store.sql.database import Database
from fleet.store.sql.rows import text_of
from fleet.store.sql.tables import CALLS, RUNS, clock

ABANDONED = Failure(
    cls=FailureClass.IN_DOUBT,
    type="abandoned",
    message="its worker was lost and its run ended before it was known how the call went: it may be billed",
)
_USED = (CALLS.c.calls, CALLS.c.input_tokens, CALLS.c.output_tokens, CALLS.c.money)


def close_abandoned(db: Database, age: float, limit: int) -> int:
    """Close up to `limit` calls that are open in runs that ended `age` seconds ago or more: how many there were.

    Each counts as one call, as one that was broken off does: what it used beyond that is not known. The usage of an
    ended run is put right in the same transaction, so that its calls add up to it. Safe to be run twice.
    """
    before = db.now() - timedelta(seconds=age)
    which = select(CALLS.c.run_id, CALLS.c.step_id, CALLS.c.ordinal).join(RUNS, RUNS.c.run_id == CALLS.c.run_id)
    which = which.where(CALLS.c.state == "open", RUNS.c.ended < before).limit(limit)
    if not db.fetch(lambda connection: connection.execute(which.limit(1)).first()):
        return 0

    def work(connection: Connection) -> int:
        found = connection.execute(which).all()
        for run, step, ordinal in found:
            closing = update(CALLS).where(CALLS.c.run_id == run, CALLS.c.step_id == step, CALLS.c.ordinal == ordinal)
            closing = closing.where(CALLS.c.state == "open")
            connection.execute(
                closing.values(state="failed", failure=text_of(ABANDONED), closed=clock(), calls=CALLS.c.calls + 1)
            )
        for run in {row.run_id for row in found}:
            _add_up(connection, run)
        return len(found)

    return db.write(work)


def _add_up(connection: Connection, run: RunId) -> None:
    sums = select(*(func.coalesce(func.sum(column), 0) for column in _USED)).where(CALLS.c.run_id == run)
    calls, given, made, money = connection.execute(sums).one()
    usage = Usage(calls=int(calls), input_tokens=int(given), output_tokens=int(made), money=float(money))
    connection.execute(update(RUNS).where(RUNS.c.run_id == run, RUNS.c.ended.is_not(None)).values(usage=text_of(usage)))
