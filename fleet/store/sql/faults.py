"""Which faults of a database pass by themselves, and how one is told to people without a secret in it."""

import errno
import shutil
import sqlite3
from pathlib import Path

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, TimeoutError

from fleet.errors import UNTIL_SEEN_TO, StoreUnreachable

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

POSTGRES_FULL = "53100"

SCANT = 65_536
"""Bytes free on a disk below which a fault of input or output is put down to that."""


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
    if _full(url, fault):
        words = "can't be written: its disk is full. Make room, and try again."
        return StoreUnreachable(f"the record at {masked(url)} {words}", retry_after=UNTIL_SEEN_TO)
    return StoreUnreachable(f"the record at {masked(url)} {_in_words(url, fault, said)}")


def _full(url: URL, fault: BaseException) -> bool:
    original = getattr(fault, "orig", None) or fault
    if url.drivername != "sqlite":
        return getattr(original, "sqlstate", None) == POSTGRES_FULL
    code = getattr(original, "sqlite_errorcode", 0) & 0xFF
    full = code == sqlite3.SQLITE_FULL or getattr(original, "errno", 0) == errno.ENOSPC
    return full or (code == sqlite3.SQLITE_IOERR and _is_full(url))


def _in_words(url: URL, fault: BaseException, said: str) -> str:
    """What is wrong, and the way out. A file never is away; it may be locked or somebody else's."""
    original = getattr(fault, "orig", None) or fault
    if url.drivername != "sqlite" or isinstance(fault, TimeoutError):
        return f"does not answer ({said}): start the database or correct FLEET_DATABASE_URL."
    code = getattr(original, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"does not answer ({said}): another process holds its lock."
    return f"can't be used ({said}): see to the file and its folder, or name another with FLEET_DATABASE_URL."


def _is_full(url: URL) -> bool:
    try:
        return shutil.disk_usage(Path(url.database or ".").parent).free < SCANT
    except OSError:
        return False
