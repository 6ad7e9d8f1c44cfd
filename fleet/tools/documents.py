"""An index over a folder of documents: full text by the sentence, on SQLite FTS5, shared by processes."""

import fcntl
import logging
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from fleet.core.outcome import FailureClass
from fleet.core.value import Value
from fleet.tools.formats import READERS, Unreadable, blocks_of
from fleet.tools.prose import sentences, words
from fleet.tools.tool import ToolFailed

LARGEST_FILE = 20_000_000
MOST_TERMS = 32
SHAPE = 1
SCHEMA = f"""
DROP TABLE IF EXISTS files;
DROP TABLE IF EXISTS sentences;
CREATE TABLE files (
    document TEXT PRIMARY KEY, modified INTEGER NOT NULL, size INTEGER NOT NULL,
    before INTEGER NOT NULL,  -- its sentence n is the row before + n
    count INTEGER NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE sentences USING fts5(
    document UNINDEXED, sentence UNINDEXED, paragraph UNINDEXED,
    title UNINDEXED,  -- a heading's text: it can be read, but is no match by itself
    text, heading, tokenize = 'porter unicode61');
PRAGMA user_version = {SHAPE};
"""
MATCHES = """
SELECT document, sentence, text, bm25(sentences, 0, 0, 0, 0, 1.0, 0.6) AS rank FROM sentences
WHERE sentences MATCH ? ORDER BY rank, document, sentence LIMIT ?
"""
KNOWN = "SELECT document, modified, size FROM files"
ADD = "INSERT INTO sentences (rowid, document, sentence, paragraph, title, text, heading) VALUES (?, ?, ?, ?, ?, ?, ?)"
RANGE = "SELECT title || text, paragraph FROM sentences WHERE rowid BETWEEN ? AND ? ORDER BY rowid"
SOURCE = re.compile(r"(?P<document>.+?)(?:#(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?)?")

Row = tuple[str, int, int, str, str, str]
"""document, sentence, paragraph, title, text, heading"""

log = logging.getLogger("fleet.tool")


class Hit(Value):
    """A sentence that matches. source: `document#sentence`, for read; sentence: from 1; score: more is better."""

    source: str
    document: str
    sentence: int
    text: str
    score: float


class Stamp(NamedTuple):
    """What tells that a file has changed: its time of modification (ns) and its size (bytes)."""

    modified: int
    size: int


class DocumentIndex:
    """The documents below `folder` (Markdown, text, HTML, PDF), indexed in the file `database`.

    A search first indexes what changed, if it last looked more than `fresh` seconds ago; a lock beside the database
    lets one process at a time do so, and the others wait and find it done. Hidden files and links that lead out of the
    folder are no part of it. Raises ToolFailed: bad_argument, not_found, outside_folder; OSError if the folder is gone.
    """

    def __init__(self, folder: Path, database: Path, fresh: float = 1.0) -> None:
        self.folder = folder.resolve()
        self.database = database
        self._fresh = fresh
        self._looked = float("-inf")
        self._one_looks = threading.Lock()

    def refresh(self) -> int:
        """Index what was added or changed since, and forget what was removed. Gives how many documents differed."""
        self.database.parent.mkdir(parents=True, exist_ok=True)
        with self._locked(), closing(self._connect()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            if connection.execute("PRAGMA user_version").fetchone()[0] != SHAPE:
                connection.executescript(f"BEGIN;{SCHEMA}COMMIT;")
            found, known = dict(self._scan()), _known(connection)
            changed = [document for document, stamp in found.items() if known.get(document) != stamp]
            removed = known.keys() - found.keys()
            for document in sorted(changed):
                self._store(connection, document, found[document])
            for document in removed:
                with connection:
                    _forget(connection, document)
            return len(changed) + len(removed)

    def search(self, query: str, limit: int = 5) -> list[Hit]:
        """The sentences that match any word of the query (of the sentence, or less so its headings), best first."""
        terms = list(dict.fromkeys(words(query)))[:MOST_TERMS]
        if not terms:
            raise ToolFailed("bad_argument", 'search: argument "query" holds no word', FailureClass.MISUSE)
        self._look()
        quoted = " OR ".join(f'"{term}"' for term in terms)
        with closing(self._connect()) as connection:
            rows = connection.execute(MATCHES, (quoted, limit)).fetchall()
        return [
            Hit(source=f"{document}#{n}", document=document, sentence=n, text=text, score=round(-rank, 3))
            for document, n, text, rank in rows
        ]

    def read(self, source: str) -> str:
        """The text of a document (`a.md`), of a sentence (`a.md#12`) or of a range of them (`a.md#10-14`)."""
        asked = SOURCE.fullmatch(source)
        if asked is None:
            raise ToolFailed("bad_argument", 'read: argument "source" is empty', FailureClass.MISUSE)
        document = asked["document"]
        if not self._inside(document):
            raise ToolFailed("outside_folder", f'"{document[:200]}" is not in the folder of documents')
        self._look()
        with closing(self._connect()) as connection:
            connection.execute("BEGIN")
            before, count = self._rows_of(connection, document)
            first, last = int(asked["first"] or 1), int(asked["last"] or asked["first"] or count)
            span = (before + max(first, 1), before + min(last, count))
            rows = connection.execute(RANGE, span).fetchall()
        if not rows and asked["first"]:
            raise ToolFailed("not_found", f'no sentence "{source[:200]}": {document} has {count}')
        paragraphs: dict[int, list[str]] = {}
        for text, paragraph in rows:
            paragraphs.setdefault(paragraph, []).append(text)
        return "\n\n".join(" ".join(each) for each in paragraphs.values())

    def documents(self) -> list[str]:
        """The names of all documents, sorted; a name is the path below the folder, with slashes."""
        self._look()
        with closing(self._connect()) as connection:
            return sorted(_known(connection))

    def _look(self) -> None:
        with self._one_looks:
            if time.monotonic() - self._looked < self._fresh and self.database.exists():
                return
            if not self._is_current():
                self.refresh()
            self._looked = time.monotonic()

    def _is_current(self) -> bool:
        if not self.database.exists():
            return False
        with closing(self._connect()) as connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] != SHAPE:
                return False
            return _known(connection) == dict(self._scan())

    def _scan(self) -> Iterator[tuple[str, Stamp]]:
        if not self.folder.is_dir():
            raise NotADirectoryError(f"the folder of documents is gone: {self.folder}")
        for parent, folders, files in os.walk(self.folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                path = Path(parent, name)
                document = path.relative_to(self.folder).as_posix()
                if name.startswith(".") or path.suffix.lower() not in READERS or not self._inside(document):
                    continue
                try:
                    status = path.stat()
                except OSError:
                    continue
                yield document, Stamp(status.st_mtime_ns, status.st_size)

    def _inside(self, document: str) -> bool:
        if "\0" in document or Path(document).is_absolute() or ".." in Path(document).parts:
            return False
        return (self.folder / document).resolve().is_relative_to(self.folder)

    def _store(self, connection: sqlite3.Connection, document: str, stamp: Stamp) -> None:
        rows = self._rows(document, stamp)
        with connection:
            _forget(connection, document)
            before = connection.execute("SELECT coalesce(max(before + count), 0) FROM files").fetchone()[0]
            connection.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?)", (document, *stamp, before, len(rows)))
            numbered = ((before + n, *row) for n, row in enumerate(rows, start=1))
            connection.executemany(ADD, numbered)

    def _rows(self, document: str, stamp: Stamp) -> list[Row]:
        """The sentences of a document; if it can't be read, none and a warning, so that it does not hide others."""
        try:
            if stamp.size > LARGEST_FILE:
                raise Unreadable(f"larger than {LARGEST_FILE} bytes")
            blocks = blocks_of((self.folder / document).resolve())
        except (Unreadable, OSError) as cause:
            log.warning("document %s is left out: %s", document, cause)
            return []
        name = re.sub(r"[\W_]+", " ", Path(document).stem)
        rows: list[Row] = []
        for paragraph, block in enumerate(blocks):
            if block.title:
                rows.append((document, len(rows) + 1, paragraph, block.text, "", ""))
                continue
            for text in sentences(block.text):
                rows.append((document, len(rows) + 1, paragraph, "", text, f"{name} {block.heading}"))
        return rows

    def _rows_of(self, connection: sqlite3.Connection, document: str) -> tuple[int, int]:
        asked = "SELECT before, count FROM files WHERE document = ?"
        row: tuple[int, int] | None = connection.execute(asked, (document,)).fetchone()
        if row is None:
            known = sorted(_known(connection))
            listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
            raise ToolFailed("not_found", f'no document "{document[:200]}"; there are: {listed or "none"}')
        return row

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.database, timeout=30.0)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of this index; the system frees it when its holder dies."""
        with self.database.with_name(self.database.name + ".lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _known(connection: sqlite3.Connection) -> dict[str, Stamp]:
    return {document: Stamp(*stamp) for document, *stamp in connection.execute(KNOWN)}


def _forget(connection: sqlite3.Connection, document: str) -> None:
    gone = "SELECT before + 1, before + count FROM files WHERE document = ?"
    for span in connection.execute(gone, (document,)).fetchall():
        connection.execute("DELETE FROM sentences WHERE rowid BETWEEN ? AND ?", span)
    connection.execute("DELETE FROM files WHERE document = ?", (document,))
