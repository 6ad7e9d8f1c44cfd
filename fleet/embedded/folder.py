"""The data folder: private to its owner, used by one fleet at a time, with a note of who that is."""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from fleet.core.value import Value
from fleet.errors import BadInput, FleetRunning

ROOM = 65_536
"""Bytes that a disk has to take before a fleet is started on it."""


class FleetNote(Value):
    """What `fleet.json` says of the fleet that runs here. addresses: without passwords. owned: it started its Redis."""

    pid: int
    namespace: str = "fleet"
    addresses: Mapping[str, str] = {}
    pids: Mapping[str, int] = {}
    restarts: Mapping[str, int] = {}
    owned: bool = True


class DataFolder:
    """Holds the folder's lock while it is open. The lock ends with the process, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: int | None = None

    def __enter__(self) -> "DataFolder":
        """Makes the folder (0700) and locks it. Raises FleetRunning, or BadInput where it can't be written to."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.path / "fleet.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self.path.joinpath("logs").mkdir(mode=0o700, exist_ok=True)
        except OSError as refused:
            raise unusable(self.path, refused) from None
        if not _lock_soon(self._lock):
            self._close()
            raise FleetRunning(_who(self.path))
        try:
            for folder in (self.path, *(each for each in self.path.iterdir() if each.is_dir())):
                _has_room(folder)
        except OSError as refused:
            self._close()
            raise unusable(folder, refused) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.path.joinpath("fleet.json").unlink(missing_ok=True)
        self._close()

    def note(self, note: FleetNote) -> None:
        """Writes `fleet.json` at one stroke."""
        write_private(self.path / "fleet.json", note.model_dump_json(indent=2))

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def _close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def unusable(folder: Path, refused: OSError) -> BadInput:
    """What to raise for a data folder, or one in it, that the system refuses."""
    return BadInput(f"the data folder {folder} can't be used ({refused.strerror}): choose another with --data")


def running(path: Path) -> FleetNote | None:
    """The fleet that runs on this folder now, or None. A note that a dead fleet left does not count."""
    note = _note(path)
    if note is None:
        return None
    try:
        descriptor = os.open(path / "fleet.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return None if _lock(descriptor) else note
    finally:
        os.close(descriptor)


def write_private(path: Path, text: str) -> None:
    """Replaces the file by one that only its owner can read (0600)."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


def kept_secret(path: Path) -> str:
    """A random password that only the owner can read: made once, the same from then on."""
    if not path.is_file():
        write_private(path, secrets.token_hex(24))
    return path.read_text()


def _has_room(folder: Path) -> None:
    """Raises OSError where no file can be written into the folder: it is another's, its disk is full or read-only."""
    draft = folder / f".room.{os.getpid()}"
    try:
        draft.write_bytes(bytes(ROOM))
    finally:
        draft.unlink(missing_ok=True)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_soon(descriptor: int) -> bool:
    """Like _lock, but lasts out somebody who only looks whether a fleet runs here."""
    until = time.monotonic() + 0.3
    while not _lock(descriptor):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _note(path: Path) -> FleetNote | None:
    try:
        return FleetNote.model_validate(json.loads((path / "fleet.json").read_text()))
    except (OSError, ValueError):
        return None


def _who(path: Path) -> str:
    note = _note(path)
    who = "" if note is None else f" (pid {note.pid}{''.join(f', {k} {v}' for k, v in note.addresses.items())})"
    return f"a fleet{who} already runs on {path}: use it, stop it, or choose another folder with --data"
