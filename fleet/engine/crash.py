"""Named points at which a process kills itself, so that a test can crash it exactly there.

The setting `crash_at` is `point:file`: the first process to reach the point creates the file and dies; the rest go on.
"""

import os
import signal
from pathlib import Path


class CrashPoints:
    """Does nothing where no point is set."""

    def __init__(self, crash_at: str) -> None:
        self._point, _, marker = crash_at.partition(":")
        self._marker = Path(marker) if marker else None

    def reached(self, point: str) -> None:
        if not self._marker or point != self._point:
            return
        try:
            self._marker.touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)
