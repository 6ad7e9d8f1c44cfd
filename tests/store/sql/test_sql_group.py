"""Group commit: what is answered is on disk, and one piece of work does not spoil another."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from pgcluster import Cluster
from sqlalchemy import Connection, Engine, event, func, select
from sqlalchemy.exc import IntegrityError, OperationalError

from fleet.core.budget import Usage
from fleet.core.ids import Fence, RunId, StepId
from fleet.core.outcome import Failure, Outcome, Status
from fleet.errors import StoreUnreachable
from fleet.store.sql.database import Database
from fleet.store.sql.filelock import FileLock
from fleet.store.sql.ledger import CallKey
from fleet.store.sql.migrate import lock_path
from fleet.store.sql.outcomes import Ended, Put
from fleet.store.sql.record import Record
from fleet.store.sql.rows import text_of
from fleet.store.sql.tables import OUTCOMES

GOOD = Outcome(status=Status.SUCCEEDED, value=1)
FENCE = Fence("1.1")
WAIT = 30


def kept(run: str, step: StepId, outcome: Outcome, fence: Fence) -> Put:
    return Put(Ended(RunId(run), step, outcome, fence))


def outcomes(database: Database) -> int:
    return database.fetch(
        lambda connection: connection.execute(select(func.count()).select_from(OUTCOMES)).scalar_one()
    )


@contextmanager
def busy(database: Database) -> Iterator[None]:
    """Keep the writer at work, so that what is handed in meanwhile goes into one transaction."""
    begun, go = threading.Event(), threading.Event()

    def work(connection: Connection) -> None:
        begun.set()
        go.wait(WAIT)

    database.write_soon(work)
    begun.wait(WAIT)
    try:
        yield
    finally:
        go.set()


@contextmanager
def commits() -> Iterator[list[Connection]]:
    seen: list[Connection] = []

    def see(connection: Connection) -> None:
        seen.append(connection)

    event.listen(Engine, "commit", see)
    try:
        yield seen
    finally:
        event.remove(Engine, "commit", see)


@contextmanager
def lost_answer() -> Iterator[list[str]]:
    """The next commit happens, and then its connection is lost before it says so."""
    lost: list[str] = []

    def commit_and_lose(connection: Connection) -> None:
        if lost:
            return
        lost.append("once")
        connection.connection.dbapi_connection.commit()
        cause: Exception = psycopg.OperationalError("the connection is lost")
        if connection.dialect.name == "sqlite":
            cause = sqlite3.OperationalError("disk I/O error")
            cause.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise OperationalError("COMMIT", None, cause)

    event.listen(Engine, "commit", commit_and_lose)
    try:
        yield lost
    finally:
        event.remove(Engine, "commit", commit_and_lose)
    assert lost


def test_work_that_comes_together_is_committed_together(record, run, database):
    with commits() as seen:
        with busy(database):
            puts = [database.write_soon(kept(run, StepId(str(n)), GOOD, FENCE)) for n in range(300)]
        assert [put.result(WAIT) for put in puts] == [GOOD] * 300
    assert len(seen) <= 3  # the one that was busy, 256, the rest
    assert outcomes(database) == 300


def test_a_piece_that_fails_does_not_spoil_the_others(record, run, database):
    def fails(connection: Connection) -> None:
        connection.execute(OUTCOMES.delete())
        raise ValueError("no")

    with busy(database):
        first = database.write_soon(kept(run, StepId("1"), GOOD, FENCE))
        bad = database.write_soon(fails)
        orphan = database.write_soon(kept("no such run", StepId("1"), GOOD, FENCE))
        last = database.write_soon(kept(run, StepId("2"), GOOD, FENCE))
    assert (first.result(WAIT), last.result(WAIT)) == (GOOD, GOOD)
    assert isinstance(bad.exception(WAIT), ValueError)
    assert isinstance(orphan.exception(WAIT), IntegrityError)
    assert outcomes(database) == 2


def test_closing_writes_what_was_handed_in(database_url, record, run):
    """R9: nothing that was handed in is dropped on the way out."""
    other = Record.open(database_url)
    for n in range(1_000):
        other.outcomes.put_behind(run, StepId(str(n)), text_of(GOOD), FENCE)
    other.close()
    assert record.outcomes.count(run) == 1_000
    with pytest.raises(StoreUnreachable, match="was closed"):
        other.outcomes.put_behind(run, StepId("late"), text_of(GOOD), FENCE)
    other.close()


def test_work_that_was_called_off_is_not_run(database):
    ran: list[str] = []
    with busy(database):
        called_off = database.write_soon(lambda connection: ran.append("off"))
        other = database.write_soon(lambda connection: ran.append("on"))
        assert called_off.cancel()
    other.result(WAIT)
    assert ran == ["on"]


def twice(name: str) -> "tuple[Callable[[Record, CallKey], object], object]":
    failure, used = Failure(type="x", message="x"), Usage(calls=1, money=0.5)
    return {
        "open": (lambda r, k: r.ledger.open(k, "tool", "t", Usage(), "", "").fresh, True),
        "done": (lambda r, k: r.ledger.done(k, "yes", used).usage, used),
        "failed": (lambda r, k: r.ledger.failed(k, failure, used).usage, used),
        "reopen": (
            lambda r, k: r.ledger.reopen(k).model_dump(include={"fresh", "attempts"}),
            {"fresh": True, "attempts": 2},
        ),
        "reissue": (lambda r, k: r.ledger.reissue(k), 1),
        "answer": (lambda r, k: r.answers.answer(k.run, k.step, "yes", "me"), True),
        "raise_to": (lambda r, k: r.epochs.raise_to(1), 2),
    }[name]


@pytest.mark.parametrize("name", ["open", "done", "failed", "reopen", "reissue", "answer", "raise_to"])
def test_a_change_whose_commit_was_not_heard_of_is_made_once(record, run, name):
    """R9, R26: the work is run again, and counts, opens and adds nothing twice."""
    key = CallKey(run, StepId("1"), 0)
    if name in ("done", "failed", "reissue", "reopen"):
        record.ledger.open(key, "tool", "t", Usage(), "", "")
    if name == "reopen":
        record.ledger.failed(key, Failure(type="x", message="x"), Usage())
    record.answers.ask(run, key.step, "?")
    change, expected = twice(name)
    with lost_answer():
        assert change(record, key) == expected


def test_goals_whose_commit_was_not_heard_of_are_new(record, submit):
    """R9, R35."""
    batch = [submit(key="k"), submit()]
    with lost_answer():
        answers = record.goals.accept(batch)
    assert [answer.new for answer in answers] == [True, True]
    assert record.goals.count_open("default") == 2


def test_a_writer_waits_for_another_program_that_holds_the_file(sqlite_url, tmp_path):
    database = Database.open(sqlite_url)
    other = sqlite3.connect(tmp_path / "record.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = database.write_soon(lambda connection: "done")
    assert not waiting.done()
    other.execute("ROLLBACK")
    assert waiting.result(WAIT) == "done"
    other.close()
    database.close()


def test_a_writer_gives_up_when_another_process_never_lets_go(sqlite_url, tmp_path: Path):
    """R6: a clear error, no hang."""
    database = Database.open(sqlite_url, patience=0.2)
    lock = FileLock(lock_path(tmp_path / "record.db"))
    ran: list[str] = []
    with lock.held(), pytest.raises(StoreUnreachable, match="holds its lock"):
        database.write(lambda connection: ran.append("late"))
    lock.close()
    assert database.write(lambda connection: "next") == "next"
    assert ran == []
    database.close()


def test_reads_and_writes_wait_for_a_server_that_went_away(cluster: Cluster, postgres_url, submit):
    """R9."""
    record = Record.open(postgres_url)
    submission = submit()
    record.goals.accept([submission])
    answers: dict[str, object] = {}

    def put() -> None:
        answers["put"] = record.outcomes.put(submission.run_id, StepId("1"), GOOD, FENCE)

    def get() -> None:
        answers["get"] = record.goals.get(submission.goal_id).run_id

    threads = [threading.Thread(target=work) for work in (put, get)]
    cluster.stop()
    try:
        for thread in threads:
            thread.start()
        with pytest.raises(StoreUnreachable), record.db.read():
            pass
        assert answers == {}
    finally:
        cluster.start()
    for thread in threads:
        thread.join(WAIT)
    assert answers == {"put": GOOD, "get": submission.run_id}
    assert record.outcomes.count(submission.run_id) == 1
    record.close()


def test_a_server_that_stays_away_is_told_after_the_patience(cluster: Cluster, postgres_url):
    """R9: a clear error, and nothing acknowledged."""
    record = Record.open(postgres_url, patience=0.3)
    record.epochs.beat(1, 1)
    cluster.stop()
    try:
        with pytest.raises(StoreUnreachable, match="does not answer"):
            record.epochs.beat(1, 2)
        with pytest.raises(StoreUnreachable, match="does not answer"):
            record.db.now()
    finally:
        cluster.start()
    assert record.epochs.beat(1, 3).n == 3
    record.close()
