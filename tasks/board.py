"""A board in shared memory: what a worker holds, as another process sees it without asking.

A step is noted by one copy into memory that both processes see, and no system call: when a step takes the interpreter
lock a moment later, the note is there. Each note carries a checksum, so a reader tells one that it caught half written,
on any processor and without a lock.
"""

import mmap
import os
import struct
import tempfile
import zlib
from typing import NamedTuple

HEADER = 64
_TICKS = struct.Struct("<Q?")
_NOTE = struct.Struct("<IH")
SIZE = 256
"""Bytes of a note. The longest: a run of 27 characters, a step and a lane of 64 each, a fence of two numbers."""
ROOM = SIZE - _NOTE.size
EMPTY = bytes(_NOTE.size)
TRIES = 100


class Note(NamedTuple):
    """An attempt that the worker holds."""

    run: str
    step: str
    fence: str
    lane: str


class Board:
    """One process writes, from any of its threads; another reads."""

    def __init__(self, fd: int, notes: int) -> None:
        """fd: of the memory, which the board closes; notes: how many it has room for."""
        self.fd = fd
        self.size = notes
        self._memory = mmap.mmap(fd, HEADER + notes * SIZE)
        self._free = list(range(notes))
        self._ticks = 0

    @classmethod
    def make(cls, notes: int) -> "Board":
        """In memory that has no name and goes with the last process that has it open."""
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("fleet-board")
        else:
            with tempfile.TemporaryFile() as file:
                fd = os.dup(file.fileno())
        os.ftruncate(fd, HEADER + notes * SIZE)
        return cls(fd, notes)

    def put(self, run: str, step: str, fence: str, lane: str) -> int | None:
        """Note an attempt: its place, or None where there is no room for it."""
        text = f"{run} {step} {fence} {lane}".encode()
        length = len(text)
        if length > ROOM:
            return None
        try:
            place = self._free.pop()
        except IndexError:
            return None
        start = HEADER + place * SIZE
        self._memory[start : start + _NOTE.size + length] = _NOTE.pack(zlib.crc32(text), length) + text
        return place

    def wipe(self, place: int) -> None:
        start = HEADER + place * SIZE
        self._memory[start : start + _NOTE.size] = EMPTY
        self._free.append(place)

    def tick(self, *, stopping: bool) -> None:
        """Says that the writer's interpreter runs, and whether the worker is being stopped."""
        self._ticks += 1
        _TICKS.pack_into(self._memory, 0, self._ticks, stopping)

    def ticks(self) -> tuple[int, bool]:
        """A number that is another one after each tick, and whether the worker is being stopped."""
        ticks, stopping = _TICKS.unpack_from(self._memory, 0)
        return ticks, stopping

    def notes(self) -> list[Note]:
        """What is noted now, without notes that stay half written however often one looks."""
        found = (self._note(place) for place in range(self.size))
        return [note for note in found if note is not None]

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)

    def _note(self, place: int) -> Note | None:
        start = HEADER + place * SIZE
        for _ in range(TRIES):
            raw = self._memory[start : start + SIZE]
            checksum, length = _NOTE.unpack_from(raw)
            if not length and not checksum:
                return None
            text = raw[_NOTE.size : _NOTE.size + length]
            if length and zlib.crc32(text) == checksum:
                return Note(*text.decode().split(" "))
        return None
