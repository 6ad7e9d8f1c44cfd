"""Named points at which a process kills itself, so that a test can crash it exactly there.

The setting `crash_at` is a folder. A file `kind.point` in it (kind being that of the step, plan, tool or join, or a
command: pause, resume, cancel, retry or fork) arms that point: the first process to reach it takes it away and dies.
"""

import os
import signal
from pathlib import Path


class CrashPoints:
    """Does nothing where no folder is set."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def reached(self, kind: str, point: str) -> None:
        if self._folder is None:
            return
        try:
            (self._folder / f"{kind}.{point}").unlink()
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)
