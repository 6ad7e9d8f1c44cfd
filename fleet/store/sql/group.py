"""Group commit: one thread of a process writes, many pieces of work to a transaction."""

import atexit
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

from fleet.errors import StoreUnreachable
from fleet.store.sql.faults import transient

log = logging.getLogger("fleet.record")

T = TypeVar("T")
Work = Callable[[Connection], T]


class Alike(Protocol):
    """Work of which many pieces are done by one statement, in any order, after all other work of a transaction."""

    def __call__(self, connection: Connection) -> Any: ...

    @staticmethod
    def together(connection: Connection, works: "Sequence[Any]") -> "list[Any]":
        """Does all of them; the answers in their order."""
        ...


MOST = 256
"""Pieces of work that one transaction takes."""
LINGER = 0.05
"""Seconds that lazy work waits for company: each transaction costs a sync of the disk."""
FIRST_PAUSE = 0.02
LONGEST_PAUSE = 1.0


@dataclass(slots=True, eq=False)
class Write:
    """A piece of work that was handed in, and where its answer goes. deadline: on the monotonic clock.

    lazy: nobody waits for it, so it may wait for company.
    """

    work: Work[Any]
    future: "Future[Any]"
    deadline: float
    lazy: bool = False
    started: bool = False

    def start(self) -> bool:
        """Whether it is to be run: not when its caller gave up before it was begun."""
        if not self.started:
            self.started = self.future.set_running_or_notify_cancel()
        return self.started

    def settle(self, answer: Any, fault: Exception | None) -> None:
        if fault is None:
            self.future.set_result(answer)
        else:
            self.future.set_exception(fault)


Answer = tuple[Any, Exception | None]


class GroupCommit:
    """Takes work from any thread; runs it in transactions of up to 256; answers when the commit is on disk.

    Work may be run twice: when another piece of its transaction failed, and when the connection was lost (even by a
    commit that did happen). It has to be idempotent, and to touch nothing but the connection.

    transact(body) runs body(connection) in one transaction. gate() is held around each transaction. unreachable(fault)
    makes the error that is told once a piece of work has waited for `patience` seconds.
    """

    def __init__(
        self,
        transact: Callable[[Work[list[Answer]]], list[Answer]],
        gate: Callable[[], AbstractContextManager[None]],
        unreachable: Callable[[BaseException], StoreUnreachable],
        patience: float,
    ) -> None:
        self._transact = transact
        self._gate = gate
        self._unreachable = unreachable
        self._patience = patience
        self._queue: SimpleQueue[Write | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, work: Work[T], *, lazy: bool = False) -> "Future[T]":
        """Hand in work; lazy work may wait LINGER for company. Raises StoreUnreachable once closed."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise StoreUnreachable("the record was closed in this process: open it again to write.")
            if self._thread is None:
                self._begin()
            self._queue.put(Write(work, future, time.monotonic() + self._patience, lazy))
        return future

    def close(self) -> None:
        """Write what was handed in, then end the thread. Raises StoreUnreachable when that takes too long."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is None:
            return
        atexit.unregister(self.close)
        self._queue.put(None)
        thread.join(self._patience * 2)
        if thread.is_alive():
            raise StoreUnreachable("the record was closed before it took every write: some are in doubt.")

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._serve, name="fleet-record", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def _serve(self) -> None:
        while (first := self._queue.get()) is not None:
            batch, pause = self._gathered(first), FIRST_PAUSE
            while batch := self._attempt(batch):
                time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
                pause = min(pause * 2, LONGEST_PAUSE)

    def _gathered(self, first: Write) -> list[Write]:
        """The first piece of work, and where it is lazy what comes within LINGER, up to one that is not."""
        batch, until = [first], time.monotonic() + LINGER
        while batch[-1].lazy and len(batch) < MOST and (left := until - time.monotonic()) > 0:
            try:
                write = self._queue.get(timeout=left)
            except Empty:
                break
            if write is None:
                self._queue.put(None)
                break
            batch.append(write)
        return batch

    def _attempt(self, batch: list[Write]) -> list[Write]:
        """One transaction; gives what is to be tried again."""
        try:
            with self._gate():
                batch = [write for write in batch + self._drain(MOST - len(batch)) if write.start()]
                answers = self._together(batch) if batch else []
        except Exception as fault:
            return self._give_up(batch, fault)
        for write, (answer, refused) in zip(batch, answers, strict=True):
            write.settle(answer, refused)
        return []

    def _give_up(self, batch: list[Write], fault: Exception) -> list[Write]:
        passing, now = transient(fault), time.monotonic()
        again = [write for write in batch if passing and now < write.deadline]
        told = self._unreachable(fault) if passing else fault
        lost = [write for write in batch if write not in again and write.start()]
        for write in lost:
            write.settle(None, told)
        if lost:
            log.error("writes given up: %d; %s", len(lost), told)
        return again

    def _drain(self, most: int) -> list[Write]:
        writes: list[Write] = []
        while len(writes) < most:
            try:
                write = self._queue.get_nowait()
            except Empty:
                break
            if write is None:
                self._queue.put(None)
                break
            writes.append(write)
        return writes

    def _together(self, batch: list[Write]) -> list[Answer]:
        try:
            return self._transact(lambda connection: _all(connection, batch))
        except Exception as fault:
            if transient(fault):
                raise
            if len(batch) == 1:
                return [(None, fault)]
        return self._transact(lambda connection: [_apart(connection, write) for write in batch])


def _all(connection: Connection, batch: list[Write]) -> list[Answer]:
    answers: dict[int, Any] = {}
    alike: dict[Any, list[int]] = {}
    for place, write in enumerate(batch):
        together = getattr(write.work, "together", None)
        if together is None:
            answers[place] = write.work(connection)
        else:
            alike.setdefault(together, []).append(place)
    for together, places in alike.items():
        answers |= dict(zip(places, together(connection, [batch[place].work for place in places]), strict=True))
    return [(answers[place], None) for place in range(len(batch))]


def _apart(connection: Connection, write: Write) -> Answer:
    """Run one piece of work so that its failure undoes nothing but itself."""
    try:
        with connection.begin_nested():
            return write.work(connection), None
    except Exception as fault:
        if transient(fault):
            raise
        return None, fault
