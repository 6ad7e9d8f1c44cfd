"""A database that holds the record: open it, read from it, write to it durably."""

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from fleet.errors import StoreUnreachable
from fleet.settings import Settings
from fleet.store.sql import connect, migrate
from fleet.store.sql.faults import masked, transient, unreachable
from fleet.store.sql.filelock import FileLock
from fleet.store.sql.group import FIRST_PAUSE, LONGEST_PAUSE, GroupCommit, Work
from fleet.store.sql.tables import clock

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds that a read or write waits for a database that is away."""
GRACE = 5.0
"""Seconds at most that a write waits longer than the writer does, which is stuck then in another process's lock."""


def database_url_for(settings: Settings) -> str:
    """The URL that is set, or that of a file in the data folder. It may hold a password."""
    return settings.record_url


class Database:
    """Thread safe. A process needs one for each URL; it starts no thread before its first write."""

    def __init__(self, url: URL, engine: Engine, patience: float) -> None:
        self.url = masked(url)
        self.dialect = engine.dialect.name
        self._secret_url = url
        self._engine = engine
        self._reads = engine.execution_options(isolation_level="AUTOCOMMIT") if self.dialect != "sqlite" else engine
        self._patience = patience
        self._writer: Connection | None = None
        file = connect.file_of(url)
        self._lock = FileLock(migrate.lock_path(file)) if file else None
        self._group = GroupCommit(
            transact=self._transact,
            gate=self._lock.held if self._lock else nullcontext,
            unreachable=self._unreachable,
            patience=patience,
        )

    def __repr__(self) -> str:
        return f"Database({self.url})"

    @classmethod
    def open(cls, url: str, *, create: bool = True, patience: float = PATIENCE) -> "Database":
        """Open it, and bring its tables to this release's form; several processes may do so at once.

        create: False refuses a database that is not there, and leaves its tables alone. patience: seconds that reads
        and writes wait for a database that went away. Raises BadSetting for a URL that can't be used, and
        StoreUnreachable for a database that does not answer.
        """
        parsed = connect.parse(url)
        engine = connect.engine(parsed)
        try:
            connect.greet(parsed, engine)
            migrate.prepare(parsed, engine, create=create)
        except (DBAPIError, sqlite3.Error, OSError) as fault:
            engine.dispose()
            raise unreachable(parsed, fault) from None
        except BaseException:
            engine.dispose()
            raise
        return cls(parsed, engine, patience)

    def close(self) -> None:
        """Write what was handed in and let go of every connection. Raises StoreUnreachable when writes are left."""
        try:
            self._group.close()
        finally:
            self._drop_writer()
            self._engine.dispose()
            if self._lock:
                self._lock.close()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection to read with. Raises StoreUnreachable at once; `fetch` is the one that waits."""
        try:
            with self._reads.connect() as connection:
                yield connection
        except (DBAPIError, PoolTimeout) as fault:
            if transient(fault):
                raise self._unreachable(fault) from fault
            raise

    def fetch(self, work: Work[T]) -> T:
        """Read, and while the database is away, read again. Raises StoreUnreachable after `patience` seconds."""
        deadline, pause = time.monotonic() + self._patience, FIRST_PAUSE
        while True:
            try:
                with self.read() as connection:
                    return work(connection)
            except StoreUnreachable:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
            pause = min(pause * 2, LONGEST_PAUSE)

    def write(self, work: Work[T]) -> T:
        """Run work(connection) within a group commit; give what it gave once that is on disk.

        The work may be run twice, so it has to be idempotent. What it raises is raised here, and undoes only itself.
        Raises StoreUnreachable after `patience` seconds: then the work may have been done, or not.
        """
        future = self._group.submit(work)
        try:
            return future.result(self._patience + min(self._patience, GRACE))
        except TimeoutError:
            if future.done():
                raise
            future.cancel()
            raise StoreUnreachable(
                f"the record at {self.url} took no write for {self._patience:.0f} s: another process holds its lock."
            ) from None

    def write_soon(self, work: Work[T]) -> "Future[T]":
        """As write, without waiting and behind what is waited for: the Future has the answer once it is on disk."""
        return self._group.submit(work, lazy=True)

    def now(self) -> datetime:
        """The time by the database's clock, with its zone (UTC)."""
        return self.fetch(lambda connection: connection.execute(select(clock())).scalar_one()).astimezone(UTC)

    def _transact(self, body: Callable[[Connection], T]) -> T:
        """One transaction on the connection that writes; only the group's thread calls this."""
        try:
            if self._writer is None:
                self._writer = self._engine.connect().execution_options(**{connect.WRITES: True})
            with self._writer.begin():
                return body(self._writer)
        except Exception as fault:
            if transient(fault) or (self._writer is not None and self._writer.in_transaction()):
                self._drop_writer()
            raise

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.invalidate()
            writer.close()

    def _unreachable(self, fault: BaseException) -> StoreUnreachable:
        return unreachable(self._secret_url, fault)
