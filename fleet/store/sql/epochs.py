"""The epoch of the fences, and the beat that tells whether Redis came back older than it was."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, or_, select, update

from fleet.core.value import Value
from fleet.store.sql.database import Database
from fleet.store.sql.rows import insert_absent
from fleet.store.sql.tables import EPOCHS, clock

FIRST = 1
THE_ROW = {"id": 1, "epoch": FIRST, "beat_epoch": 0, "beat_n": 0}


class Beat(Value):
    """The newest beat. at: by the database's clock."""

    epoch: int
    n: int
    at: datetime


class Epochs:
    """One number for the whole fleet; it only rises."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def current(self) -> int:
        """The epoch; the first one is made when there is none."""
        row = self._db.fetch(_row)
        return int(row.epoch) if row is not None else self._db.write(_made).epoch

    def raise_to(self, expected: int) -> int:
        """Raise the epoch by one if it is `expected`; gives the one that stands. Of several callers one raises it."""
        change = update(EPOCHS).where(EPOCHS.c.epoch == expected).values(epoch=expected + 1)

        def work(connection: Connection) -> int:
            _made(connection)
            connection.execute(change)
            return int(_made(connection).epoch)

        return self._db.write(work)

    def beat(self, epoch: int, n: int) -> Beat:
        """Write a beat unless a newer one is there; gives the one that stands, durable on return."""
        newer = or_(EPOCHS.c.beat_epoch < epoch, and_(EPOCHS.c.beat_epoch == epoch, EPOCHS.c.beat_n < n))
        change = update(EPOCHS).where(newer).values(beat_epoch=epoch, beat_n=n, beat_at=clock())

        def work(connection: Connection) -> Beat:
            _made(connection)
            connection.execute(change)
            return _beat(_made(connection))

        return self._db.write(work)

    def last_beat(self) -> Beat | None:
        row = self._db.fetch(_row)
        return None if row is None or row.beat_at is None else _beat(row)


def _beat(row: Row[Any]) -> Beat:
    return Beat(epoch=row.beat_epoch, n=row.beat_n, at=row.beat_at)


def _row(connection: Connection) -> Row[Any] | None:
    return connection.execute(select(EPOCHS)).first()


def _made(connection: Connection) -> Row[Any]:
    row = _row(connection)
    if row is None:
        connection.execute(insert_absent(EPOCHS, connection), THE_ROW)
        row = connection.execute(select(EPOCHS)).one()
    return row
