"""Further processes of a fleet for tests, beside those that its supervisor keeps: each ended by its handle."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fleet.settings import Settings, child_environment

FAREWELL = 20.0
"""Seconds that a process has to end by itself."""


@contextmanager
def process(
    settings: Settings,
    *argv: str,
    log: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """`fleet ARGV` with these settings. log: gets what it says. environment: variables of this process alone.

    cwd: the folder whose code it runs (None: this one's).
    """
    everything = {**child_environment(settings), **(environment or {})}
    with log.open("ab") as said:
        started = subprocess.Popen(
            [sys.executable, "-m", "fleet", *argv], env=everything, stdout=said, stderr=said, cwd=cwd
        )
    try:
        yield started
    finally:
        end(started)


def end(started: "subprocess.Popen[bytes]", seconds: float = FAREWELL) -> None:
    """SIGTERM, and SIGKILL where that is not heeded. A process that stands still goes on first."""
    if started.poll() is None:
        os.kill(started.pid, signal.SIGTERM)
        os.kill(started.pid, signal.SIGCONT)
    try:
        started.wait(seconds)
    except subprocess.TimeoutExpired:
        started.kill()
        started.wait()
