"""Opening: migrations, durability settings, and what people are told when it fails."""

import socket
import sqlite3
import subprocess
import sys
import threading
from datetime import UTC, datetime
from importlib.resources import files

import pytest
from alembic import op
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import column, inspect, make_url, table, text
from sqlmodel import SQLModel

from fleet.errors import BadSetting, StoreUnreachable
from fleet.settings import Settings
from fleet.store.sql import migrate
from fleet.store.sql.database import Database, database_url_for
from fleet.store.sql.faults import unreachable
from fleet.store.sql.tables import METADATA

OPEN = "import sys; from fleet.store.sql.record import Record; r = Record.open(sys.argv[1]); print(r.epochs.current())"


def test_migrations_make_the_tables_that_the_code_uses(database):
    """R36."""
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": migrate.VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []
        assert migrate.version(connection) == migrate.HEAD


def test_the_head_that_the_code_knows_is_that_of_the_migrations():
    """R36: else a process would take an old database for a new one."""
    (head,) = ScriptDirectory.from_config(migrate.config()).get_heads()
    assert int(head) == migrate.HEAD
    assert files("fleet.store.sql").joinpath("migrations", "env.py").is_file()


def test_upgrading_twice_changes_nothing(database_url):
    migrate.upgrade(database_url)
    migrate.upgrade(database_url)
    Database.open(database_url, create=False).close()


def test_a_database_of_a_newer_release_is_used_as_it_is(database_url, database):
    """R36: migrations only add, so last release's code goes on."""
    newer = table(migrate.VERSION_TABLE, column("version_num")).update().values(version_num="0999")
    assert database.write(lambda connection: connection.execute(newer).rowcount) == 1
    other = Database.open(database_url)
    with other.read() as connection:
        assert migrate.version(connection) == 999
    other.close()


def test_processes_may_open_a_new_database_at_once(database_url):
    opening = [
        subprocess.Popen([sys.executable, "-c", OPEN, database_url], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    for process in opening:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, b"1\n"), err.decode()


def test_a_migration_that_dies_leaves_nothing_behind(database_url, monkeypatch):
    def dies(*args: object, **rest: object) -> None:
        raise OSError("the power failed")

    with monkeypatch.context() as patch:
        patch.setattr(op, "create_index", dies)
        with pytest.raises(StoreUnreachable, match="the power failed"):
            Database.open(database_url)
    Database.open(database_url).close()


def test_a_database_that_is_not_there_is_not_made_unasked(database_url):
    with pytest.raises(StoreUnreachable, match="start the fleet"):
        Database.open(database_url, create=False)


def test_an_unreachable_server_is_named_in_one_sentence_without_its_password(recwarn):
    """R38."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"postgresql://me:s3cret@127.0.0.1:{taken.getsockname()[1]}/fleet?application_name=s3cret2"
        with pytest.raises(StoreUnreachable) as caught:
            Database.open(url)
    said = str(caught.value)
    assert "me:***@127.0.0.1" in said
    assert "s3cret" not in said
    assert "\n" not in said
    assert said.endswith("correct FLEET_DATABASE_URL.")


def test_an_open_database_does_not_show_its_password(sqlite_url, database):
    """R38."""
    assert repr(database) == f"Database({database.url})"
    assert "?" not in database.url


@pytest.mark.parametrize(
    "url", ["mysql://me:s3cret@host/x", "no url with s3cret", "sqlite://", "sqlite:///:memory:", "sqlite:///x?mode=ro"]
)
def test_a_url_that_can_not_hold_the_record_is_refused(url):
    with pytest.raises(BadSetting) as caught:
        Database.open(url)
    assert "s3cret" not in str(caught.value)


def test_a_folder_that_can_not_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnreachable, match="can't be used"):
        Database.open(f"sqlite:///{tmp_path}/file/record.db")


def test_a_file_that_is_no_database_is_told(tmp_path):
    (tmp_path / "record.db").write_text("not a database, but long enough to look like one" * 100)
    with pytest.raises(StoreUnreachable, match="file is not a database"):
        Database.open(f"sqlite:///{tmp_path}/record.db")


def test_commits_of_sqlite_reach_the_disk(sqlite_url):
    database = Database.open(sqlite_url)
    asked = ("journal_mode", "synchronous", "foreign_keys")

    def pragmas(connection):
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in asked]

    assert database.write(pragmas) == database.fetch(pragmas) == ["wal", 2, 1]
    database.close()


def test_commits_of_postgres_reach_the_disk(postgres_url):
    """Even where the server's default is otherwise."""
    database = Database.open(postgres_url.replace("options=", "options=-csynchronous_commit%3Doff%20"))
    show = text("SHOW synchronous_commit")
    assert database.write(lambda connection: connection.execute(show).scalar()) == "on"
    database.close()


def test_the_time_is_the_databases_and_has_a_zone(database):
    now = database.now()
    assert now.tzinfo == UTC
    assert abs(now - datetime.now(UTC)).total_seconds() < 60


def test_no_thread_is_started_before_the_first_write(database):
    """A worker forks after it has read its settings."""

    def writers() -> int:
        return sum(thread.name == "fleet-record" for thread in threading.enumerate())

    before = writers()
    database.now()
    assert writers() == before
    database.write(lambda connection: None)
    assert writers() == before + 1
    database.close()
    assert writers() == before


def test_the_record_is_in_the_data_folder_by_default(tmp_path):
    url = database_url_for(Settings(data=tmp_path))
    assert url.startswith(f"sqlite:///{tmp_path}/")
    assert database_url_for(Settings(database_url="postgresql://host/x")) == "postgresql://host/x"


def test_a_users_own_sqlmodel_tables_are_left_alone():
    assert not set(METADATA.tables) & set(SQLModel.metadata.tables)


def test_a_full_disk_is_told_as_such_and_leaves_nothing_half_written(sqlite_url):
    database = Database.open(sqlite_url, patience=1.0)
    with pytest.raises(StoreUnreachable, match="its disk is full"):
        database.write(_fill)
    assert database.fetch(lambda connection: inspect(connection).has_table("heap")) is False
    database.close()


def _fill(connection):
    connection.exec_driver_sql("PRAGMA max_page_count = 1")  # SQLite then acts as if no page more fitted on the disk
    connection.exec_driver_sql("CREATE TABLE heap (body TEXT)")
    connection.exec_driver_sql("INSERT INTO heap VALUES (hex(zeroblob(1000000)))")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_READONLY, "can't be used"),
        (sqlite3.SQLITE_CANTOPEN, "see to the file and its folder"),
        (sqlite3.SQLITE_BUSY, "another process holds its lock"),
        (sqlite3.SQLITE_FULL, "Make room"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_the_way_out(code, words):
    fault = sqlite3.OperationalError("no")
    fault.sqlite_errorcode = code
    assert words in str(unreachable(make_url("sqlite:////tmp/x.db"), fault))
