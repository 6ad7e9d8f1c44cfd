"""Wakes the worker's event loop when a slot becomes free, so that the next message is taken at once.

Without it, a freed slot of the threads pool without prefetch waits for the loop's next tick: 0.6 s were measured.
"""

import os
from typing import Any

from celery import bootsteps


class Nudge(bootsteps.StartStopStep):  # type: ignore[misc]
    """A pipe that the loop reads: writing a byte to it wakes the loop."""

    requires = ("celery.worker.components:Hub",)
    write_end: int | None = None

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._read_end: int | None = None

    def start(self, parent: Any) -> None:
        self._read_end, Nudge.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(Nudge.write_end, False)
        parent.hub.add_reader(self._read_end, self._drain)

    def stop(self, _parent: Any) -> None:
        write_end, Nudge.write_end = Nudge.write_end, None
        for end in (write_end, self._read_end):
            if end is not None:
                os.close(end)
        self._read_end = None

    def _drain(self) -> None:
        if self._read_end is None:
            return
        try:
            os.read(self._read_end, 4096)
        except BlockingIOError:
            return


def nudge() -> None:
    """Safe in any thread, and when no loop is running."""
    end = Nudge.write_end
    if end is None:
        return
    try:
        os.write(end, b".")
    except OSError:
        return
