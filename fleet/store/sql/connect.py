"""Engines: how a connection to SQLite or PostgreSQL is made so that a commit that returned is on disk."""

import threading
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from fleet.errors import BadSetting

WRITES = "fleet_writes"
"""Execution option of the connection that writes: its transactions take SQLite's write lock when they begin."""

BUSY_SECONDS = 10
CONNECT_SECONDS = 5
FIRST_SECONDS = 1.5
"""Seconds in all for a server's answer to the first connection of a process, unless the URL asks for more.

A process that works already waits longer."""


def parse(text: str) -> URL:
    """A SQLAlchemy URL of a SQLite file or of PostgreSQL by psycopg. Raises BadSetting for anything else."""
    try:
        url = make_url(text)
    except ArgumentError:
        raise BadSetting(
            "the database URL can't be read: write sqlite:///file or postgresql://user@host/name."
        ) from None
    backend = url.drivername.partition("+")[0]
    if backend in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise BadSetting(f"{url.drivername} can't hold the record: use sqlite or postgresql.")
    if not url.database or ":memory:" in url.database or url.query:
        raise BadSetting("the record needs a file of its own: write sqlite:///file, with nothing behind it.")
    return url


def file_of(url: URL) -> Path | None:
    """The SQLite file, or None for a server."""
    return Path(url.database).absolute() if url.drivername == "sqlite" and url.database else None


def engine(url: URL) -> Engine:
    """An engine whose connections are durable. Statements' values are kept out of error texts: they hold goals."""
    if file_of(url) is None:
        return _postgres(url)
    made = create_engine(url, hide_parameters=True, pool_size=16, max_overflow=32)
    event.listen(made, "connect", _prepare_sqlite)
    event.listen(made, "begin", _begin_sqlite)
    return made


def _postgres(url: URL) -> Engine:
    patience: dict[str, Any] = {
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": 5,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        "tcp_user_timeout": 15_000,
    }
    given = {name: value for name, value in patience.items() if name not in url.query}
    made = create_engine(
        url, connect_args=given, hide_parameters=True, pool_pre_ping=True, pool_size=4, max_overflow=12
    )
    event.listen(made, "connect", _prepare_postgres)
    return made


def greet(url: URL, engine: Engine) -> None:
    """Connect for the first time. Raises OSError where a server does not answer in time, DBAPIError where it refuses.

    The driver's own limit holds for each address that a name stands for, and again for each try without TLS.
    """
    if file_of(url) is not None:
        return
    faults: list[BaseException] = []

    def connect() -> None:
        try:
            engine.connect().close()
        except BaseException as fault:
            faults.append(fault)

    seconds = max(FIRST_SECONDS, float(str(url.query.get("connect_timeout", 0))))
    caller = threading.Thread(target=connect, name="fleet-record-first", daemon=True)
    caller.start()
    caller.join(seconds)
    if caller.is_alive():
        raise OSError(f"no answer within {seconds:g} s")
    if faults:
        raise faults[0]


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # else the driver begins transactions of its own, and without the write lock
    for pragma in (f"busy_timeout = {BUSY_SECONDS * 1000}", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(WRITES, False)
    driver: Any = connection.connection.driver_connection  # SQLAlchemy would take longer for it than for the query
    driver.execute("BEGIN IMMEDIATE" if writes else "BEGIN")


def _prepare_postgres(connection: Any, _: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit TO on")
    connection.commit()
