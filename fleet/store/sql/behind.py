"""Outcomes that nobody waits for: all that come until the writer gets to them are one piece of its work."""

import logging
import threading
from typing import Any

from sqlalchemy import Connection

from fleet.store.sql.database import Database
from fleet.store.sql.faults import transient
from fleet.store.sql.rows import insert_absent
from fleet.store.sql.tables import OUTCOMES

log = logging.getLogger("fleet.record")


class Behind:
    """Thread safe. A row costs its place in a list, and a share of one statement."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._open: list[dict[str, Any]] | None = None

    def add(self, row: dict[str, Any]) -> None:
        """Hand in a row of the journal. Raises StoreUnreachable once the record is closed."""
        with self._lock:
            if self._open is not None:
                self._open.append(row)
                return
            rows = self._open = [row]
        try:
            self._db.write_soon(lambda connection: self._write(rows, connection))
        except BaseException:
            with self._lock:
                self._open = None
            raise

    def _write(self, rows: list[dict[str, Any]], connection: Connection) -> None:
        with self._lock:
            if self._open is rows:
                self._open = None
        insert = insert_absent(OUTCOMES, connection)
        try:
            with connection.begin_nested():
                connection.execute(insert, rows)
        except Exception as fault:
            if transient(fault):
                raise
            for row in rows:
                _alone(row, connection)


def _alone(row: dict[str, Any], connection: Connection) -> None:
    """A row that can't be kept costs no other one its place."""
    try:
        with connection.begin_nested():
            connection.execute(insert_absent(OUTCOMES, connection), row)
    except Exception as fault:
        if transient(fault):
            raise
        log.error("an outcome of step %s was not kept: %s", row["step_id"], fault, extra={"run": row["run_id"]})
