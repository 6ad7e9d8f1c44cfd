"""The record in a simulation: SQLite in memory, written in the thread that asks, with somebody in between."""

from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import create_engine, event, make_url
from sqlalchemy.pool import StaticPool

from fleet.errors import StoreUnreachable
from fleet.store.simulated import Lost, Wire
from fleet.store.sql.database import Database
from fleet.store.sql.group import Work
from fleet.store.sql.tables import METADATA

T = TypeVar("T")
MEMORY = "sqlite://"


class Memory:
    """One database that the processes of a simulation share. clock: seconds since 1970, which its own clock follows."""

    def __init__(self) -> None:
        self.clock: Callable[[], float] = lambda: 0.0
        self.engine = create_engine(MEMORY, poolclass=StaticPool, connect_args={"check_same_thread": False})
        event.listen(self.engine, "connect", self._prepare)
        METADATA.create_all(self.engine)
        self.connection = self.engine.connect()

    def clear(self) -> None:
        with self.connection.begin():
            for table in reversed(METADATA.sorted_tables):
                self.connection.execute(table.delete())

    def run(self, work: Work[T]) -> T:
        """In a transaction of its own."""
        with self.connection.begin():
            return work(self.connection)

    def close(self) -> None:
        self.connection.close()
        self.engine.dispose()

    def _prepare(self, connection: Any, _: Any) -> None:
        connection.create_function("strftime", 2, self._now)

    def _now(self, _form: str, _when: str) -> str:
        return datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


class InlineDatabase(Database):
    """What a process of the simulation has of the record. What it writes behind is lost when it dies before `flush`."""

    def __init__(self, memory: Memory, wire: Wire) -> None:
        super().__init__(make_url(MEMORY), memory.engine, 0.0)
        self._memory = memory
        self._wire = wire
        self._behind: list[tuple[Work[Any], Future[Any]]] = []

    def fetch(self, work: Work[T]) -> T:
        self._told(self._wire.before, "sql read")
        return self._memory.run(work)

    def write(self, work: Work[T]) -> T:
        self._told(self._wire.before, "sql write")
        self.flush()  # what was handed in first is on disk first
        answer = self._memory.run(work)
        self._told(self._wire.after, "sql write")
        return answer

    def write_soon(self, work: Work[T]) -> "Future[T]":
        future: Future[T] = Future()
        self._behind.append((work, future))
        return future

    def flush(self) -> None:
        """Write what was handed in to be written behind."""
        behind, self._behind = self._behind, []
        for work, future in behind:
            future.set_result(self._memory.run(work))

    def close(self) -> None:
        """The memory is everybody's."""

    def _told(self, tell: Callable[[str], None], what: str) -> None:
        try:
            tell(what)
        except Lost as lost:
            raise StoreUnreachable(f"the record does not answer: {lost}") from None
