"""The worker's handle of the process that beats for it: starts it, hears it, starts it again when it dies."""

import json
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import IO

from .beating import About

log = logging.getLogger("fleet.heartbeat")
MODULE = "fleet._apps.tasks.beating"
FIRST = 0.1
"""Seconds before the process is started again the first time; doubled up to a heartbeat while it says nothing."""
FAREWELL = 2.0
"""Seconds that it has to end by itself."""
PATIENCE = 5.0
"""Seconds, or a lease, that it may say nothing."""


class Apart:
    """One thread starts and hears it; any thread may call hush(). environment: its whole environment, without secrets.

    deaths: how often it died. The caller beats itself while `beating` is False.
    """

    def __init__(self, about: About, environment: Mapping[str, str]) -> None:
        self.deaths = 0
        self._about = about
        self._environment = {**environment, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._hushed = False
        self._unread = b""
        self._failed = 0
        self._due = 0.0
        self._since = 0.0
        self._spoke = False
        self._quiet = (about.lease - about.heartbeat) * 0.75

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def beating(self) -> bool:
        """Whether it has been heard of late: if not, there is time for another beat within the lease."""
        return self._spoke and time.monotonic() - self._since < self._quiet

    def hear(self, timeout: float) -> list[list[str]]:
        """What it says within so many seconds; the first words are enough. Starts it where it is due."""
        if self._process is None and time.monotonic() >= self._due:
            self._start()
        if self._process is None:
            time.sleep(max(0.0, min(timeout, self._due - time.monotonic(), FIRST)))
            return []
        words = self._read(self._process, timeout)
        if self._process is not None and time.monotonic() - self._since > max(self._about.lease, PATIENCE):
            log.warning("the process that beats says nothing: it is ended")
            self._process.kill()
            self._since = time.monotonic()
        return words

    def hush(self) -> None:
        """Let it end, and never start it again."""
        with self._lock:
            self._hushed = True
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()

    def end(self) -> None:
        """Returns when it has ended."""
        self.hush()
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.wait(FAREWELL)
        except subprocess.TimeoutExpired:
            process.kill()
        _close(process)

    def _start(self) -> None:
        """Never by fork alone: this process has threads. In a session of its own, so that Ctrl-C is the worker's."""
        with self._lock:
            if self._hushed:
                self._due = float("inf")
                return
            try:
                process = subprocess.Popen(  # noqa: S603 - the fleet's own program
                    [sys.executable, "-P", "-m", MODULE],
                    env=self._environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    bufsize=0,
                    pass_fds=(self._about.fd,),
                    start_new_session=True,
                )
            except OSError as refused:
                self._died(str(refused))
                return
            self._process, self._since, self._spoke = process, time.monotonic(), False
            os.set_blocking(_end(process.stdout), False)
            with suppress(OSError):  # it is dead: its output says so
                os.write(_end(process.stdin), json.dumps(self._about._asdict()).encode() + b"\n")

    def _read(self, process: "subprocess.Popen[bytes]", timeout: float) -> list[list[str]]:
        """After a wait for the interpreter a select is out of date, so what is there is read in any case."""
        output = _end(process.stdout)
        select.select([output], [], [], max(0.0, timeout))
        try:
            more = os.read(output, 65_536)
        except BlockingIOError:
            return []
        if not more:
            self._process = None
            self._died(f"it ended with {_close(process)}")
            return []
        self._since, self._spoke, self._failed = time.monotonic(), True, 0
        *lines, self._unread = (self._unread + more).split(b"\n")
        return [json.loads(line) for line in lines]

    def _died(self, why: str) -> None:
        if self._hushed:
            return
        self.deaths += 1
        delay = min(self._about.heartbeat, FIRST * 2.0**self._failed)
        self._failed, self._unread, self._spoke = min(self._failed + 1, 30), b"", False
        self._due = time.monotonic() + delay
        log.warning("the process that beats is started again in %.1f s (%d times): %s", delay, self.deaths, why)


def _end(pipe: IO[bytes] | None) -> int:
    assert pipe is not None  # noqa: S101 - for the type checker
    return pipe.fileno()


def _close(process: "subprocess.Popen[bytes]") -> int:
    """The exit code of a process that has closed its output, or is to end now."""
    process.kill()
    code = process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    return code
