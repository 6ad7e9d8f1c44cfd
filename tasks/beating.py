"""A process beside a worker that renews what the worker holds: `python -m fleet._apps.tasks.beating`.

A step that holds the interpreter lock (a bad regular expression, a large json.loads) stops every thread of its
worker. This process has a lock of its own, and sees what the worker holds on a board in shared memory; so such a step
costs none of its neighbours their lease. It imports Redis's client and little of the fleet: it starts in 0.4 s and
takes 35 MB, a third of them shared.

What it is told: a line of JSON (`About`) on standard input, which then stays open as long as the worker wants it. What
it tells: a line of JSON each, on standard output: ["beat"], ["back"] after a silence of Redis, ["away", text], and
["refused", run, step, fence, why], once for each reason.

It ends with its worker, whose death closes the input and gives it another parent. It renews nothing while the worker
is stopped (SIGSTOP), since a frozen worker's steps belong to others.

It kills a worker whose interpreter does not come back: when the lock was held while a step passed its deadline, and for
`patience` seconds more, or for as long while nothing that the worker holds is wanted. Python can't break into such a
step, and as long as it goes on the worker's other steps are renewed and never move. Each of them loses its attempt,
and a call that it had under way is made again: that is the least that can be lost, and no sooner than it has to be.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fleet.errors import StoreUnreachable
from fleet.store.beats import Beating, Beats

from .board import Board, Note
from .stall import Stall

PAGE = 200
LATE = 1.2
"""A lease that was not renewed for so many heartbeats is nobody's but a worker's that is held up or dead."""
Key = tuple[str, str, str]


class About(NamedTuple):
    """What the process is told. patience: see above. fd, notes: of the board. parent: the worker's process id."""

    url: str
    namespace: str
    worker: str
    lanes: str
    slots: int
    lease: float
    heartbeat: float
    patience: float
    fd: int
    notes: int
    parent: int

    def timeout(self) -> float:
        """Seconds that Redis has for an answer: there is to be time for another try within the lease."""
        return max(1.0, min(10.0, self.lease / 3))


class Pulse:
    """Beats for one worker. say: gets what the worker is to hear. alive: whether the worker lives."""

    def __init__(
        self, about: About, board: Board, beats: Beats, say: Callable[..., None], alive: Callable[[], bool]
    ) -> None:
        self.stall = Stall(about.patience)
        self._about = about
        self._who = Beating(about.worker, about.lanes, about.lease)
        self._board = board
        self._beats = beats
        self._say = say
        self._alive = alive
        self._refused: dict[Key, str] = {}
        self._away = False

    def look(self, passed: float) -> None:
        """Whether the worker's interpreter has run since the last look, `passed` seconds ago."""
        ticks, _ = self._board.ticks()
        unwanted = all(note[:3] in self._refused for note in self._board.notes())
        self.stall.look(ticks, passed, unwanted=unwanted)

    def beat(self) -> None:
        """One beat; a Redis that is away is told of."""
        try:
            self._renew()
        except StoreUnreachable as gone:
            self._away = True
            self._say("away", str(gone))
            return
        self._say("back" if self._away else "beat")
        self._away = False

    def _renew(self) -> None:
        """A stopping worker has no slots but those it holds: their leases are counted against them."""
        notes = self._board.notes()
        keys = {note[:3] for note in notes}
        self._refused = {key: why for key, why in self._refused.items() if key in keys}
        stuck = sum(why != "CANCELLED" for why in self._refused.values())
        _, stopping = self._board.ticks()
        slots = len(notes) if stopping else max(0, self._about.slots - stuck)
        for start in range(0, max(1, len(notes)), PAGE):
            if self._alive():
                self._renew_page(slots if start == 0 else None, notes[start : start + PAGE])
        if self.stall.seconds >= self._about.heartbeat:
            self._renew_strays(keys)

    def _renew_page(self, slots: int | None, notes: Sequence[Note]) -> None:
        for index, why in self._beats.renew(self._who, slots, notes):
            key = notes[index][:3]
            if why == "DEADLINE":
                self.stall.deadline()
            if self._refused.get(key) != why:
                self._say("refused", *key, why)
            self._refused[key] = why

    def _renew_strays(self, known: set[Key]) -> None:
        """Steps that were claimed a moment before the lock was taken: their slots have not come to note them."""
        within = self._about.lease - LATE * self._about.heartbeat
        strays = [record for record in self._beats.strays(self._who, within) if record[:3] not in known]
        for start in range(0, len(strays), PAGE):
            if self._alive():
                self._beats.renew(self._who, None, strays[start : start + PAGE])


class Speaker:
    """Says lines without ever waiting for who reads them: a worker whose interpreter is held reads none."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._pending = b""

    def say(self, *words: str) -> None:
        self._pending += json.dumps(words).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        try:
            self._pending = self._pending[os.write(self._fd, self._pending) :] if self._pending else b""
        except BlockingIOError:
            return


def is_stopped(process: int) -> bool:
    """Whether a process is stopped by a signal or a debugger, and so runs nothing."""
    try:
        state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        state = _asked(process)
    return state[:1] in (b"T", b"t")


def _asked(process: int) -> bytes:
    """The state where there is no /proc."""
    command = ["ps", "-o", "state=", "-p", str(process)]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=5).stdout.strip()  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return b""


def go_on(about: About, pulse: Pulse, speaker: Speaker) -> bool:
    """Beat until standard input is closed or the parent is another one: whether the worker is to be killed."""
    pause = min(0.5, about.heartbeat / 4)
    due = seen = time.monotonic()
    while True:
        over, _, _ = select.select([0], [], [], max(0.0, min(pause, due - time.monotonic())))
        if over or os.getppid() != about.parent:
            return False
        speaker.flush()
        now = time.monotonic()
        passed, seen = min(now - seen, 2 * pause), now
        if is_stopped(about.parent):
            pulse.stall.clear()
            due = now + pause
            continue
        pulse.look(passed)
        if pulse.stall.hopeless:
            return True
        if now >= due:
            pulse.beat()
            due = now + about.heartbeat


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # meant for the worker, which may have steps to end
    told = sys.stdin.readline()
    if not told:
        return
    about = About(**json.loads(told))
    board = Board(about.fd, about.notes)
    beats = Beats.connect(about.url, about.namespace, about.timeout())
    speaker = Speaker(1)
    pulse = Pulse(about, board, beats, speaker.say, lambda: os.getppid() == about.parent)
    try:
        hopeless = go_on(about, pulse, speaker)
    except BrokenPipeError:
        return
    if hopeless and os.getppid() == about.parent:
        _tell(f"a step has held the interpreter for {pulse.stall.seconds:.0f} s, past a deadline: the worker is ended")
        os.kill(about.parent, signal.SIGKILL)


def _tell(message: str) -> None:
    """On the worker's log, as the worker would."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = {"at": at, "level": "error", "logger": "fleet.beating", "message": message}
    sys.stderr.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
