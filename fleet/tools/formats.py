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
ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+|^\s*>\s?")
INLINE = (
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"(\*\*|__|`+)(.+?)\1"), r"\2"),
    (re.compile(r"(?<![\w*])\*([^*\s][^*]*)\*(?!\w)"), r"\1"),
    (re.compile(r"<(https?://[^>]+)>"), r"\1"),
)
SILENT = {"script", "style", "template", "noscript", "nav", "svg", "iframe", "object"}
_BLOCKS = """address article aside blockquote body br caption dd details div dl dt fieldset figcaption figure footer form
h1 h2 h3 h4 h5 h6 header hr li main ol p pre section summary table tbody tfoot thead tr ul"""
BREAKING = frozenset(_BLOCKS.split())
VOID = {"br", "hr"}


def markdown_blocks(text: str) -> list[Block]:
    """Markdown without its marks; front matter is dropped, a table row is its cells joined by ` | `."""
    lines = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL).splitlines()
    blocks: list[Block] = []
    headings: list[str] = []
    paragraph: list[str] = []
    fenced = False

    def end() -> None:
        if joined := _without_marks(" ".join(paragraph)):
            blocks.append(Block(" > ".join(filter(None, headings)), joined))
        paragraph.clear()

    for line in lines:
        if FENCE.match(line):
            fenced = not fenced
            end()
        elif not fenced and (heading := HEADING.match(line)):
            end()
            level = len(heading[1])
            headings = [*headings[: level - 1], *[""] * (level - 1 - len(headings)), _without_marks(heading[2])]
            blocks.append(Block(" > ".join(filter(None, headings[:-1])), headings[-1], title=True))
        else:
            if not line.strip() or RULE.match(line) or ITEM.match(line) or line.lstrip().startswith("|"):
                end()
            if not RULE.match(line):
                paragraph.append(ITEM.sub("", line).strip().strip("|"))
    end()
    return blocks


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
        self.blocks: list[Block] = []
        self.title = ""
        self._headings: list[str] = []
        self._silent: list[str] = []
        self._text: list[str] = []
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the parser passes it
        self._in_title = tag == "title"
        if tag == "body":
            self._silent.clear()
        if tag in SILENT:
            self._silent.append(tag)
        elif tag in BREAKING:
            self._end()
        elif tag in ("td", "th") and "".join(self._text).strip():
            self._text.append(" | ")

    def handle_startendtag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the parser passes it
        if tag in BREAKING:
            self._end()

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False
        if tag in self._silent:
            del self._silent[self._silent.index(tag) :]
        elif tag in BREAKING and tag not in VOID:
            self._end(int(tag[1]) if re.fullmatch("h[1-6]", tag) else 0)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._silent:
            self._text.append(data)

    def close(self) -> None:
        super().close()
        self._end()
        self.title = " ".join(self.title.split())

    def _end(self, level: int = 0) -> None:
        joined = " ".join("".join(self._text).split())
        self._text.clear()
        if not joined:
            return
        if level:
            above = self._headings[: level - 1]
            self.blocks.append(Block(" > ".join(filter(None, above)), joined, title=True))
            self._headings = [*above, *[""] * (level - 1 - len(above)), joined]
        else:
            self.blocks.append(Block(" > ".join(filter(None, self._headings)), joined))


def html_page(text: str) -> tuple[str, list[Block]]:
    """The title of an HTML page, and its visible text: no scripts, styles or navigation."""
    page = _Page()
    page.feed(text)
    page.close()
    return page.title, page.blocks


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
