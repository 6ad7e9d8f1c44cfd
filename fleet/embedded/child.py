"""One kept process: how it is started, watched and ended, always by its handle."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SHIM = Path(__file__).with_name("shim.py")
LOG_BYTES = 20_000_000
TAIL = 64_000
"""Characters of a log in which its last line is looked for."""
LONGEST = 400
"""Characters of a last line that people are shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChildSpec:
    """What to run. log: the file that gets its output, appended; env: its whole environment."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: Path
    log: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Backoff:
    """Seconds before a dead child is started again: doubled from base up to cap, and back to base after `healthy`."""

    base: float = 0.2
    cap: float = 10.0
    healthy: float = 10.0

    def delay(self, deaths: int) -> float:
        """deaths: in a row, this one included (1 or more)."""
        return float(min(self.cap, self.base * 2 ** min(deaths - 1, 30)))


@dataclass(kw_only=True, slots=True)
class Child:
    """A process that is to be alive. due: when (monotonic) to start it, where it is not. code: its last exit code."""

    spec: ChildSpec
    due: float = 0.0
    started: float = 0.0
    deaths: int = 0
    restarts: int = 0
    code: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self, now: float) -> None:
        """Starts it in a process group of its own, tied to the life of the calling thread. Raises OSError."""
        self.started = now
        self.process = _launch(self.spec)

    def has_ended(self) -> bool:
        """Whether the process is dead; what it left of its process group is then ended as well."""
        if self.process is None:
            return True
        if not _exited(self.process.pid):
            return False
        self._signal_group()  # before it is reaped, since only then does the number still mean this group
        self.code = self.process.wait()
        self.process = None
        return True

    def fail(self, now: float, backoff: Backoff) -> None:
        """Takes note of a death, and when to start again."""
        self.deaths = 1 if now - self.started >= backoff.healthy else self.deaths + 1
        self.due = now + backoff.delay(self.deaths)

    def tell(self, number: signal.Signals) -> None:
        """Signals the process alone, so that it winds its own children down."""
        if self.process is not None:
            os.kill(self.process.pid, number)  # never Popen.send_signal: it would reap

    def kill(self) -> None:
        """SIGKILL to its whole process group."""
        if self.process is not None and self.process.returncode is None:
            self._signal_group()

    def _signal_group(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
        except (ProcessLookupError, PermissionError):  # macOS refuses for a group of zombies
            return


def _launch(spec: ChildSpec) -> subprocess.Popen[bytes]:
    if spec.log.exists() and spec.log.stat().st_size > LOG_BYTES:
        spec.log.replace(spec.log.with_suffix(".log.1"))
    argv = [sys.executable, "-I", "-S", str(SHIM), str(os.getpid()), "--", *spec.argv]
    with open(spec.log, "ab", opener=_private) as log:
        return subprocess.Popen(  # noqa: S603 - the fleet's own commands
            argv,
            env=dict(spec.env),
            cwd=spec.cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _exited(pid: int) -> bool:
    """Whether the child is dead, without reaping it."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def last_line(log: Path) -> str:
    """The last line that a child wrote, of a record its message and the last line of its error; or an empty string."""
    if not log.exists():
        return ""
    lines = [line for line in log.read_text(errors="replace")[-TAIL:].splitlines() if line.strip()]
    return _words(lines[-1].strip())[:LONGEST] if lines else ""


def _words(line: str) -> str:
    try:
        record = json.loads(line)
        told = [record["message"], *str(record.get("error", "")).strip().splitlines()[-1:]]
    except (ValueError, TypeError, KeyError):
        return line
    return ": ".join(map(str, told))
