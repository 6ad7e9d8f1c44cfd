"""Documents of several formats as blocks of plain text, each under its heading."""

import io
import re
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple


class Block(NamedTuple):
    """A paragraph, list item or table row, or (title) a heading. heading: those above it, outermost first."""

    heading: str
    text: str
    title: bool = False


class Unreadable(Exception):
    """A file does not hold what its name says, or is locked."""


HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
FENCE = re.compile(r"^\s*(?:```|~~~)")
RULE = re.compile(r"^\s*(?:[-*_]\s*){3,}$|^[\s|:=-]+$")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
QUOTE = re.compile(r"^\s*>\s?")
BREAK = re.compile(rf"{HEADING.pattern}|{RULE.pattern}|{ITEM.pattern}")
INLINE = (
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"(\*\*|__|`+)(.+?)\1"), r"\2"),
    (re.compile(r"(?<![\w*])\*([^*\s][^*]*)\*(?!\w)"), r"\1"),
    (re.compile(r"<(https?://[^>]+)>"), r"\1"),
)
SILENT = {"script", "style", "template", "noscript", "nav", "svg", "iframe", "object"}
_BLOCKS = """address article aside blockquote body br caption dd details div dl dt fieldset figcaption figure footer
form h1 h2 h3 h4 h5 h6 header hr li main ol p pre section summary table tbody tfoot thead tr ul"""
BREAKING = frozenset(_BLOCKS.split())
CELLS = {"td", "th"}


class _Written:
    """Collects blocks under their headings, and pairs the cells of a table's rows with its header."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._headings: list[str] = []
        self._header = ""

    def heading(self, level: int, text: str) -> None:
        above = self._headings[: level - 1]
        self.blocks.append(Block(" > ".join(filter(None, above)), text, title=True))
        self._headings = [*above, *[""] * (level - 1 - len(above)), text]

    def text(self, text: str) -> None:
        self._add(text)

    def no_table(self) -> None:
        self._header = ""

    def header(self, row: str) -> None:
        self._header = row
        self._add(row, title=True)

    def row(self, row: str) -> None:
        names, cells = self._header.split(" | "), row.split(" | ")
        paired = self._header and len(names) == len(cells)
        self._add("; ".join(f"{name}: {cell}" for name, cell in zip(names, cells, strict=True)) if paired else row)

    def row_was_header(self) -> None:
        self.header(self.blocks.pop().text)

    def _add(self, text: str, title: bool = False) -> None:
        self.blocks.append(Block(" > ".join(filter(None, self._headings)), text, title))


def markdown_blocks(text: str) -> list[Block]:
    """Markdown without its marks and front matter; a table row is a block, each cell behind its column's name."""
    written = _Written()
    paragraph: list[str] = []
    fenced = False
    for line in [*re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL).splitlines(), ""]:
        fence, row = FENCE.match(line), not fenced and line.lstrip().startswith("|")
        fenced ^= bool(fence)
        starts = fence or row or not line.strip() or (not fenced and BREAK.match(line))
        if starts and (joined := _without_marks(" ".join(paragraph))):
            written.text(joined)
        if starts:
            paragraph.clear()
        if not row:
            written.no_table()
        if row:
            _markdown_row(written, line)
        elif not fenced and (heading := HEADING.match(line)):
            written.heading(len(heading[1]), _without_marks(heading[2]))
        elif not fence and not RULE.match(line):
            paragraph.append(ITEM.sub("", QUOTE.sub("", line)).strip())
    return written.blocks


def _markdown_row(written: _Written, line: str) -> None:
    if not RULE.match(line):
        written.row(_without_marks(line.strip().strip("|")))
    elif written.blocks:
        written.row_was_header()


def _without_marks(text: str) -> str:
    for pattern, kept in INLINE:
        text = pattern.sub(kept, text)
    return re.sub(r"\s*\|\s*", " | ", " ".join(text.split())).strip()


def text_blocks(text: str) -> list[Block]:
    """Plain text: paragraphs are what blank lines part."""
    paragraphs = re.split(r"\n\s*\n", text.replace("\r\n", "\n"))
    return [Block("", joined) for each in paragraphs if (joined := " ".join(each.split()))]


class _Page(HTMLParser):
    """Collects a page's visible text by block, and its title."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.written = _Written()
        self.title = ""
        self._silent: list[str] = []
        self._text: list[str] = []
        self._cells: set[str] = set()
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the parser passes it
        self._in_title = tag == "title"
        if tag == "body":
            self._silent.clear()
        if tag == "table":
            self.written.no_table()
        if tag in SILENT:
            self._silent.append(tag)
        elif tag in BREAKING:
            self._end()
        elif tag in CELLS:
            self._text.append(" | " if self._cells else "")
            self._cells.add(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the parser passes it
        if tag in BREAKING:
            self._end()

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False
        if tag in self._silent:
            del self._silent[self._silent.index(tag) :]
        elif tag in BREAKING:
            self._end(tag)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._silent:
            self._text.append(data)

    def close(self) -> None:
        super().close()
        self._end()
        self.title = " ".join(self.title.split())

    def _end(self, tag: str = "") -> None:
        joined = " ".join("".join(self._text).split())
        cells = frozenset(self._cells)
        self._text.clear()
        self._cells.clear()
        if not joined:
            return
        if re.fullmatch("h[1-6]", tag):
            self.written.heading(int(tag[1]), joined)
        elif cells == {"th"}:
            self.written.header(joined)
        elif cells:
            self.written.row(joined)
        else:
            self.written.text(joined)


def html_page(text: str) -> tuple[str, list[Block]]:
    """The title of an HTML page, and its visible text: no scripts, styles or navigation."""
    page = _Page()
    page.feed(text)
    page.close()
    return page.title, page.written.blocks


def _pdf_blocks(content: bytes) -> list[Block]:
    import pypdf  # noqa: PLC0415 - slow to import, and few folders hold a PDF

    try:
        pages = [page.extract_text() for page in pypdf.PdfReader(io.BytesIO(content)).pages]
    except Exception as cause:
        raise Unreadable(f"not a PDF that can be read: {type(cause).__name__}") from cause
    return [block for page in pages for block in text_blocks(re.sub(r"(\w)-\n(\w)", r"\1\2", page))]


def _of_text(reader: Callable[[str], list[Block]]) -> Callable[[bytes], list[Block]]:
    def read(content: bytes) -> list[Block]:
        try:
            return reader(content.decode("utf-8-sig"))
        except UnicodeDecodeError as cause:
            raise Unreadable("not UTF-8 text") from cause

    return read


def _html_blocks(text: str) -> list[Block]:
    return html_page(text)[1]


READERS: Mapping[str, Callable[[bytes], list[Block]]] = {
    ".md": _of_text(markdown_blocks),
    ".markdown": _of_text(markdown_blocks),
    ".txt": _of_text(text_blocks),
    ".html": _of_text(_html_blocks),
    ".htm": _of_text(_html_blocks),
    ".pdf": _pdf_blocks,
}
"""What reads a file, by its suffix in lower case."""


def blocks_of(path: Path) -> list[Block]:
    """The blocks of a file. Raises Unreadable, KeyError for a suffix that is not in READERS, and OSError."""
    return READERS[path.suffix.lower()](path.read_bytes())
