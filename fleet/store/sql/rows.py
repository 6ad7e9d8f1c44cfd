"""What the modules of the record share: inserting what is absent, and values as text."""

from functools import cache
from typing import Any, TypeVar

from sqlalchemy import Connection, Insert, Table
from sqlalchemy.dialects import postgresql, sqlite

from fleet.core.ids import RunId
from fleet.core.value import Value
from fleet.errors import UnknownGoal

V = TypeVar("V", bound=Value)

CHUNK = 500
"""Names that one statement asks for."""


def insert_absent(table: Table, connection: Connection) -> Insert:
    """An insert that leaves a row alone which is there already, by any of the table's unique keys; counted."""
    return _insert_absent(table, connection.dialect.name)


@cache
def _insert_absent(table: Table, dialect: str) -> Insert:
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return insert(table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)


def upsert(table: Table, connection: Connection, row: dict[str, Any], renewed: dict[str, Any]) -> None:
    """Insert `row`, or set `renewed` in the row that has its primary key."""
    insert: Any = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    key = [column.name for column in table.primary_key]
    connection.execute(insert(table).values(row).on_conflict_do_update(index_elements=key, set_=renewed))


def text_of(value: Value) -> str:
    """The value as compact JSON: what has its default is left out."""
    return value.model_dump_json(exclude_defaults=True)


def plain(text: str) -> str:
    """Text that both databases can hold: PostgreSQL refuses NUL, and neither takes half a surrogate pair."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")


def no_run(run_id: RunId | str) -> UnknownGoal:
    return UnknownGoal(f"there is no run {run_id} in the record.")
