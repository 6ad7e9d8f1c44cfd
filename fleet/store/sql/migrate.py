"""Bring a database to this release's tables, by Alembic, with several processes starting at once.

Alembic is imported where it is used: a process that finds the newest tables starts a quarter of a second sooner.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, Connection, Engine, inspect, text

from fleet.errors import StoreUnreachable
from fleet.store.sql import connect
from fleet.store.sql.faults import masked
from fleet.store.sql.filelock import FileLock

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = 3
"""The number of the newest migration. Known here, so that a process that finds it need not load the migrations."""
VERSION_TABLE = "fleet_version"
ADVISORY_LOCK = 0x666C6565
"""PostgreSQL's name for the lock around a migration."""


def lock_path(file: Path) -> Path:
    """The file whose lock a process holds while it writes to a SQLite file."""
    return file.with_name(file.name + ".lock")


def upgrade(url: str) -> None:
    """Make or upgrade the tables at `url`. Raises BadSetting; a database that fails raises SQLAlchemy's DBAPIError."""
    parsed = connect.parse(url)
    engine = connect.engine(parsed)
    try:
        prepare(parsed, engine, create=True)
    finally:
        engine.dispose()


def config() -> "Config":
    """Alembic's configuration, for its commands."""
    from alembic.config import Config  # noqa: PLC0415

    made = Config()
    made.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return made


def prepare(url: URL, engine: Engine, *, create: bool) -> None:
    """Upgrade where the tables are older than this release. A newer database is used as it is: migrations only add.

    create: False refuses a database that is absent or older, with StoreUnreachable.
    """
    file = connect.file_of(url)
    if file is not None:
        if not create and not file.exists():
            raise StoreUnreachable(f"there is no record at {masked(url)}: start the fleet, which makes it.")
        file.parent.mkdir(parents=True, exist_ok=True)
    if _ready(engine):
        return
    if not create:
        raise StoreUnreachable(
            f"the record at {masked(url)} is older than this release: start the fleet to upgrade it."
        )
    if file is None:
        _upgrade_server(engine)
        return
    lock = FileLock(lock_path(file))
    try:
        with lock.held():
            _upgrade_file(engine)
    finally:
        lock.close()


def _ready(engine: Engine) -> bool:
    with engine.connect() as connection:
        return version(connection) >= HEAD and _is_wal(connection)


def version(connection: Connection) -> int:
    """The number of the migration that the tables are at; 0 for none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return 0
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608
    return int(found or 0)


def _is_wal(connection: Connection) -> bool:
    if connection.dialect.name != "sqlite":
        return True
    return connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def _upgrade_file(engine: Engine) -> None:
    raw = engine.raw_connection()
    try:
        raw.cursor().execute("PRAGMA journal_mode = WAL")  # not within a transaction, and it stays with the file
    finally:
        raw.close()
    with engine.connect().execution_options(**{connect.WRITES: True}) as connection, connection.begin():
        _to_head(connection)


def _upgrade_server(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": ADVISORY_LOCK})
        _to_head(connection)


def _to_head(connection: Connection) -> None:
    if version(connection) >= HEAD:
        return
    from alembic import command  # noqa: PLC0415

    settings = config()
    settings.attributes["connection"] = connection
    command.upgrade(settings, "head")
