"""The ledger: every billed call, written before it is made and closed when it has ended."""

import uuid
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, Row, Update, and_, bindparam, func, null, select, update

from fleet.core.budget import Usage
from fleet.core.ids import GoalId, RunId, StepId
from fleet.core.outcome import Failure
from fleet.core.value import Json, Value
from fleet.store.sql.abandoned import close_abandoned
from fleet.store.sql.database import Database
from fleet.store.sql.rows import insert_absent, text_of
from fleet.store.sql.tables import CALLS, RUNS, clock

OPEN, DONE, FAILED = "open", "done", "failed"
JSON: TypeAdapter[Any] = TypeAdapter(Any)


class CallKey(NamedTuple):
    """Which call: the step's n-th move. Not the attempt: a later attempt finds what an earlier one did."""

    run: RunId
    step: StepId
    ordinal: int


class CallRow(Value):
    """A call as it stands. fresh: the caller opened it just now, and nobody else has.

    response: what a done one gave. failure: why a failed one failed. usage: what its tries used so far. attempts:
    tries, the first included. reissues: how often it was issued again while its end was unknown.
    """

    key: CallKey
    kind: Literal["model", "tool"]
    name: str
    state: Literal["open", "done", "failed"]
    reservation: Usage
    idempotency_key: str
    request_hash: str
    response: Json = None
    failure: Failure | None = None
    usage: Usage = Usage()
    attempts: int = 1
    reissues: int = 0
    fresh: bool = False


_USED = (CALLS.c.calls, CALLS.c.input_tokens, CALLS.c.output_tokens, CALLS.c.money)
_USAGE = select(*(func.coalesce(func.sum(column), 0) for column in _USED)).where(CALLS.c.run_id == bindparam("run"))
_USAGE_OF_STEP = _USAGE.where(CALLS.c.step_id == bindparam("step"))


class Ledger:
    """All changes are durable on return, and safe to be made twice. A done row is never changed again.

    Those that change a row raise KeyError where there is none.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def open(
        self,
        key: CallKey,
        kind: Literal["model", "tool"],
        name: str,
        reservation: Usage,
        idempotency_key: str,
        request_hash: str,
    ) -> CallRow:
        """Write a call ahead; gives the row that stands.

        fresh: this made the row, so the call may be made. A row that is open and not fresh belongs to another attempt,
        which may have made the call: the caller decides.
        """
        opener = _token()
        fresh = CallRow(
            **{"key": key, "kind": kind, "name": name, "state": OPEN, "reservation": reservation, "fresh": True},
            **{"idempotency_key": idempotency_key, "request_hash": request_hash},
        )
        row = {
            **{"run_id": key.run, "step_id": key.step, "ordinal": key.ordinal, "kind": kind, "name": name},
            **{"state": OPEN, "opener": opener, "attempts": 1, "reservation": text_of(reservation)},
            **{"idempotency_key": idempotency_key, "request_hash": request_hash},
        }

        def work(connection: Connection) -> CallRow:
            if connection.execute(insert_absent(CALLS, connection), row).rowcount == 1:
                return fresh
            return _standing(connection, key, opener)

        return self._db.write(work)

    def done(self, key: CallKey, response: Json, usage: Usage) -> CallRow:
        """Close a call with its response. One that was marked failed is done all the same: it was paid for."""
        text = JSON.dump_json(response).decode()
        change = _closed(DONE, usage).values(response=text, failure=null()).where(CALLS.c.state != DONE)
        return self._change(key, change)

    def failed(self, key: CallKey, failure: Failure, usage: Usage) -> CallRow:
        """Close an open call with its failure. One that is closed stays as it is."""
        change = _closed(FAILED, usage).values(failure=text_of(failure)).where(CALLS.c.state == OPEN)
        return self._change(key, change)

    def reopen(self, key: CallKey) -> CallRow:
        """Open a failed call for another try. fresh: this opened it. Otherwise the row is as it stood."""
        opener = _token()
        change = update(CALLS).where(CALLS.c.state == FAILED)
        change = change.values(state=OPEN, opener=opener, attempts=CALLS.c.attempts + 1, closed=null())
        return self._change(key, change, opener)

    def reissue(self, key: CallKey) -> int:
        """Count that an open call, its end unknown, is issued again; gives how often it was. A closed one stays."""
        opener = _token()  # makes counting safe to be run twice
        change = update(CALLS).where(CALLS.c.state == OPEN, CALLS.c.opener != opener)
        change = change.values(opener=opener, reissues=CALLS.c.reissues + 1)
        return self._change(key, change).reissues

    def usage(self, run: RunId, step: StepId | None = None) -> Usage:
        """What all calls of a run, or of one step, used; those that failed and failed tries of open ones included."""
        query, about = (_USAGE, {"run": run}) if step is None else (_USAGE_OF_STEP, {"run": run, "step": step})
        calls, given, made, money = self._db.fetch(lambda connection: connection.execute(query, about).one())
        return Usage(calls=int(calls), input_tokens=int(given), output_tokens=int(made), money=float(money))

    def reissued(self, run: RunId | None = None) -> list[CallRow]:
        """Calls that were issued again while their end was unknown, and so may have been billed twice."""
        which = CALLS.c.reissues > 0
        return self._rows(which if run is None else and_(which, CALLS.c.run_id == run))

    def reissued_for(self, goal: GoalId) -> list[CallRow]:
        """As reissued, of all runs of a goal."""
        runs = select(RUNS.c.run_id).where(RUNS.c.goal_id == goal)
        return self._rows(and_(CALLS.c.reissues > 0, CALLS.c.run_id.in_(runs)))

    def close_abandoned(self, age: float, limit: int = 100) -> int:
        """Close calls left open in runs that ended `age` seconds ago, as failed and in doubt: how many there were."""
        return close_abandoned(self._db, age, limit)

    def rows(self, run: RunId) -> list[CallRow]:
        """The calls of a run, by step and ordinal."""
        return self._rows(CALLS.c.run_id == run)

    def _rows(self, which: ColumnElement[bool]) -> list[CallRow]:
        query = select(CALLS).where(which).order_by(CALLS.c.run_id, CALLS.c.step_id, CALLS.c.ordinal)
        return self._db.fetch(lambda connection: [_call(row) for row in connection.execute(query)])

    def _change(self, key: CallKey, change: Update, opener: str | None = None) -> CallRow:
        return self._db.write(_changing(key, change.where(_is(key)), opener))


def _changing(key: CallKey, change: Update, opener: str | None) -> Callable[[Connection], CallRow]:
    def work(connection: Connection) -> CallRow:
        row = connection.execute(change.returning(CALLS)).first()
        return _standing(connection, key, opener) if row is None else _call(row, opener)

    return work


def _closed(state: str, usage: Usage) -> Update:
    return update(CALLS).values(
        state=state,
        closed=clock(),
        calls=CALLS.c.calls + usage.calls,
        input_tokens=CALLS.c.input_tokens + usage.input_tokens,
        output_tokens=CALLS.c.output_tokens + usage.output_tokens,
        money=CALLS.c.money + usage.money,
    )


def _token() -> str:
    return uuid.uuid4().hex


def _is(key: CallKey) -> ColumnElement[bool]:
    return and_(CALLS.c.run_id == key.run, CALLS.c.step_id == key.step, CALLS.c.ordinal == key.ordinal)


def _standing(connection: Connection, key: CallKey, opener: str | None = None) -> CallRow:
    row = connection.execute(select(CALLS).where(_is(key))).first()
    if row is None:
        raise KeyError(key)
    return _call(row, opener)


def _call(row: Row[Any], opener: str | None = None) -> CallRow:
    return CallRow(
        key=CallKey(row.run_id, row.step_id, row.ordinal),
        kind=row.kind,
        name=row.name,
        state=row.state,
        reservation=Usage.model_validate_json(row.reservation),
        idempotency_key=row.idempotency_key,
        request_hash=row.request_hash,
        response=None if row.response is None else JSON.validate_json(row.response),
        failure=None if row.failure is None else Failure.model_validate_json(row.failure),
        usage=Usage(calls=row.calls, input_tokens=row.input_tokens, output_tokens=row.output_tokens, money=row.money),
        attempts=row.attempts,
        reissues=row.reissues,
        fresh=row.state == OPEN and row.opener == opener,
    )
