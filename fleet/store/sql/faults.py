"""Which faults of a database pass by themselves, and how one is told to people without a secret in it."""

import sqlite3

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, TimeoutError

from fleet.errors import StoreUnreachable

SQLITE_PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)
POSTGRES_PASSING = ("08", "25006", "40001", "40P01", "53", "55P03", "57P")
"""Prefixes of SQLSTATE: connection lost, read-only standby, serialisation, deadlock, no resources, lock, shutdown."""


def transient(fault: BaseException) -> bool:
    """Whether the same work may succeed later: the database is away, busy, full or gave way to another writer."""
    if isinstance(fault, TimeoutError):
        return True  # no connection of the pool came free
    if not isinstance(fault, DBAPIError):
        return False
    if fault.connection_invalidated:
        return True
    original = fault.orig
    if isinstance(original, sqlite3.Error):
        return getattr(original, "sqlite_errorcode", 0) & 0xFF in SQLITE_PASSING
    state = getattr(original, "sqlstate", None)
    if state is None:
        return type(original).__name__ in ("OperationalError", "InterfaceError", "ConnectionTimeout")
    return str(state).startswith(POSTGRES_PASSING)


def masked(url: URL) -> str:
    """The URL without its password and without its query, which may hold one too."""
    return url.set(query={}).render_as_string(hide_password=True)


def unreachable(url: URL, fault: BaseException) -> StoreUnreachable:
    """One sentence: which database, and what it or its driver said, without a password."""
    said = str(getattr(fault, "orig", None) or fault).strip().partition("\n")[0].rstrip(".")
    for secret in (url.password, url.query.get("password")):
        if secret:
            said = said.replace(str(secret), "***")
    return StoreUnreachable(
        f"the record at {masked(url)} does not answer ({said}): start the database or correct FLEET_DATABASE_URL."
    )
