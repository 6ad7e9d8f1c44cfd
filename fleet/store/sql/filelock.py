"""A lock between processes, on a file beside the database."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FileLock:
    """Held by one thread of one process at a time; the kernel gives it back when the holder dies.

    SQLite has its waiters poll with growing pauses, so a process that writes without a pause starves the others for
    seconds. Here the kernel wakes them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the lock, hold it for the block. Not for two threads with one FileLock."""
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
