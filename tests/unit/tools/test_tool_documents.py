"""The index of a folder of documents, and the tools search and read over it."""

import logging
import multiprocessing
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from plain_pdf import pdf_of

from fleet.core.outcome import FailureClass
from fleet.core.plan import Effect
from fleet.tools.builtin.search import document_tools
from fleet.tools.context import ToolContext
from fleet.tools.documents import DocumentIndex
from fleet.tools.formats import html_page, markdown_blocks
from fleet.tools.tool import ToolFailed

CORPUS = Path(__file__).parents[3] / "examples" / "research" / "corpus"

MARKDOWN = """---
title: front matter
---
# Dams

A **dam** holds [water](http://x.example/) back. It is 30 m high.

## Costs

- concrete is `dear`
- earth is cheap

| kind | height |
| --- | ---: |
| arch | 200 m |

| maker |
| --- |
| Acme |

> Quoted words
> go on.

```
code = 1
```
"""
PAGE = """<html><head><title>On  tides</title><style>p {}</style><script>var moon = 1</script></head><body>
<nav>menu</nav><h1>Tides</h1><p>The moon lifts the <b>sea</b> &amp; the land.<br>Twice a day.</p>
<table><tr><th>place</th><th>range</th></tr><tr><td>Fundy</td><td>16 m</td></tr></table>
<template>hidden</template></body></html>"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "deep").mkdir(parents=True)
    (folder / "dams.md").write_text(MARKDOWN)
    (folder / "deep" / "tides.html").write_text(PAGE)
    (folder / "wind.txt").write_text("Wind turns rotors.\nRotors turn shafts.\n\nBirds avoid them.\n")
    (folder / "sun.pdf").write_bytes(
        pdf_of("Panels turn light into\npower. They age slowly.", "Page two has (brackets).")
    )
    return folder


@pytest.fixture
def index(folder: Path, tmp_path: Path) -> DocumentIndex:
    return DocumentIndex(folder, tmp_path / "data" / "index.sqlite", fresh=0)


def sources(index: DocumentIndex, query: str) -> list[str]:
    return [hit.source for hit in index.search(query)]


def failure(index: DocumentIndex, source: str) -> tuple[str, str]:
    with pytest.raises(ToolFailed) as failed:
        index.read(source)
    return failed.value.failure.type, failed.value.failure.message


def test_every_format_is_found_by_the_sentence(index: DocumentIndex) -> None:
    assert sources(index, "high dam")[0] == "dams.md#3"
    assert sources(index, "moon")[0] == "deep/tides.html#2"
    assert sources(index, "rotors shafts")[0] == "wind.txt#2"
    assert sources(index, "light")[0] == "sun.pdf#1"
    assert index.read("sun.pdf") == "Panels turn light into power. They age slowly.\n\nPage two has (brackets)."


def test_markdown_loses_its_marks_and_a_table_names_each_cell() -> None:
    assert [block.text for block in markdown_blocks(MARKDOWN)] == [
        "Dams",
        "A dam holds water back. It is 30 m high.",
        "Costs",
        "concrete is dear",
        "earth is cheap",
        "kind | height",
        "kind: arch; height: 200 m",
        "maker",
        "maker: Acme",
        "Quoted words go on.",
        "code = 1",
    ]
    assert {block.heading for block in markdown_blocks(MARKDOWN)[3:]} == {"Dams > Costs"}


def test_a_page_loses_what_is_not_shown() -> None:
    title, blocks = html_page(PAGE)
    assert title == "On tides"
    assert [block.text for block in blocks] == [
        "Tides",
        "The moon lifts the sea & the land.",
        "Twice a day.",
        "place | range",
        "place: Fundy; range: 16 m",
    ]


def test_a_heading_helps_to_find_its_sentences_but_is_no_hit(index: DocumentIndex) -> None:
    assert sources(index, "costs earth")[0] == "dams.md#6"
    assert "dams.md#4" not in sources(index, "costs")


def test_words_are_found_in_any_of_their_forms(index: DocumentIndex) -> None:
    assert "wind.txt#2" in sources(index, "ROTOR turning")


@pytest.mark.parametrize(
    "query",
    ['"', "zz OR", "NEAR(x y)", "text:moon", "moon*", "-moon", "^ moon", "(moon", "'; DROP TABLE files; --", "_ moon"],
)
def test_a_query_is_words_and_never_syntax(index: DocumentIndex, query: str) -> None:
    """R38: what a model writes can't reach the query language."""
    if "moon" in query:
        assert "deep/tides.html#2" in sources(index, query)
    elif query == '"':
        with pytest.raises(ToolFailed, match="holds no word"):
            index.search(query)
    else:
        assert sources(index, query) == []


def test_a_source_that_search_gave_can_be_checked_by_read(index: DocumentIndex) -> None:
    for hit in index.search("dam water rotors moon power age", limit=50):
        assert index.read(hit.source) == hit.text
        assert (hit.document, hit.sentence) == (hit.source.split("#")[0], int(hit.source.split("#")[1]))


def test_read_takes_a_document_a_sentence_or_a_range(index: DocumentIndex) -> None:
    assert index.read("wind.txt") == "Wind turns rotors. Rotors turn shafts.\n\nBirds avoid them."
    assert index.read("wind.txt#2-3") == "Rotors turn shafts.\n\nBirds avoid them."
    assert index.read("wind.txt#2-99") == "Rotors turn shafts.\n\nBirds avoid them."
    assert index.read("wind.txt#1") == "Wind turns rotors."


def test_what_is_not_there_is_answered_with_what_is(index: DocumentIndex) -> None:
    assert failure(index, "winds.txt") == (
        "not_found",
        'no document "winds.txt"; there are: dams.md, deep/tides.html, sun.pdf, wind.txt',
    )
    assert failure(index, "wind.txt#4") == ("not_found", 'no sentence "wind.txt#4": wind.txt has 3')
    assert failure(index, "wind.txt#3-2")[0] == "not_found"
    assert failure(index, "wind.txt#0")[0] == "not_found"
    assert failure(index, "")[0] == "bad_argument"


@pytest.mark.parametrize(
    "source", ["../secret.md", "deep/../../secret.md", "{outside}", "link.md", "links/secret.md", "a\0b"]
)
def test_nothing_outside_the_folder_is_read_or_found(index: DocumentIndex, folder: Path, source: str) -> None:
    """R38: a path can't lead out of the folder, not even by a symbolic link."""
    outside = folder.parent / "secret.md"
    outside.write_text("The password is swordfish.")
    (folder / "link.md").symlink_to(outside)
    (folder / "links").symlink_to(folder.parent)
    assert failure(index, source.format(outside=outside))[0] == "outside_folder"
    assert sources(index, "swordfish") == []


def test_a_link_within_the_folder_is_followed_and_hidden_files_are_not(index: DocumentIndex, folder: Path) -> None:
    (folder / ".data").mkdir()
    (folder / ".data" / "real.md").write_text("Mounted settings are links.")
    (folder / "shown.md").symlink_to(".data/real.md")
    assert sources(index, "mounted") == ["shown.md#1"]


def test_only_what_changed_is_indexed_again(index: DocumentIndex, folder: Path) -> None:
    assert index.refresh() == 4
    assert index.refresh() == 0
    (folder / "wind.txt").write_text("Calm today.")
    (folder / "new.md").write_text("Fresh words.")
    (folder / "dams.md").unlink()
    assert index.refresh() == 3
    assert (sources(index, "rotors"), sources(index, "dam"), sources(index, "fresh")) == ([], [], ["new.md#1"])
    assert index.read("wind.txt") == "Calm today."
    assert index.documents() == ["deep/tides.html", "new.md", "sun.pdf", "wind.txt"]


def test_a_search_sees_a_change_by_itself(index: DocumentIndex, folder: Path) -> None:
    assert sources(index, "zeppelin") == []
    (folder / "late.md").write_text("A zeppelin floats.")
    assert sources(index, "zeppelin") == ["late.md#1"]


def test_a_file_that_cannot_be_read_hides_no_other(
    index: DocumentIndex, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "broken.pdf").write_bytes(b"not a pdf")
    (folder / "latin.txt").write_bytes("Grüße".encode("latin-1"))
    with (folder / "vast.txt").open("wb") as file:
        file.truncate(20_000_001)
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    with caplog.at_level(logging.WARNING, "fleet.tool"):
        assert sources(index, "moon") == ["deep/tides.html#2"]
    assert all(name in caplog.text for name in ("broken.pdf", "latin.txt", "vast.txt"))
    assert index.read("broken.pdf") == ""


def test_an_index_of_another_shape_is_built_anew(index: DocumentIndex) -> None:
    """R36: an older file meets newer code."""
    index.refresh()
    with sqlite3.connect(index.database) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("ALTER TABLE files RENAME COLUMN size TO bytes")
    connection.close()
    assert sources(index, "moon") == ["deep/tides.html#2"]


def test_a_folder_that_is_gone_does_not_empty_the_index(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError):
        DocumentIndex(tmp_path / "nowhere", tmp_path / "index.sqlite").search("word")


def _build(folder: Path, database: Path, gate: Any, results: Any) -> None:
    index = DocumentIndex(folder, database)
    gate.wait()
    results.put((index.refresh(), [hit.source for hit in index.search("word7", limit=50)]))


def test_two_processes_that_build_at_once_index_each_document_once(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    for n in range(40):
        (folder / f"d{n}.md").write_text(f"Here is word{n}. And more of it.")
    spawn = multiprocessing.get_context("spawn")
    gate, results = spawn.Barrier(2), spawn.Queue()
    builders = [
        spawn.Process(target=_build, args=(folder, tmp_path / "data" / "index.sqlite", gate, results)) for _ in range(2)
    ]
    for builder in builders:
        builder.start()
    told = [results.get(timeout=60) for _ in builders]
    for builder in builders:
        builder.join(60)
    results.close()
    results.join_thread()
    assert sorted(changed for changed, _ in told) == [0, 40]
    assert [found for _, found in told] == [["d7.md#1"]] * 2


def test_the_tools_are_what_a_plan_sees(folder: Path, tmp_path: Path) -> None:
    search, read = document_tools(folder, tmp_path / "index.sqlite")
    assert (search.spec.name, read.spec.name) == ("search", "read")
    assert (search.spec.effect, search.spec.breaker, read.spec.breaker) == (Effect.READS, None, None)
    hits = search.call(search.prepare({"query": "the moon"}), ToolContext())
    assert hits[0].keys() == {"source", "document", "sentence", "text", "score"}
    assert read.call(read.prepare({"source": hits[0]["source"]}), ToolContext()) == hits[0]["text"]
    with pytest.raises(ToolFailed) as failed:
        search.prepare({"query": "x", "limit": 0})
    assert failed.value.failure.cls is FailureClass.MISUSE


@pytest.mark.parametrize(
    ("query", "source"),
    [
        ("pumped hydro round-trip efficiency", "pumped-hydro.md#5"),
        ("lithium-ion cost per kWh", "lithium-ion.md#10"),
        ("hydrogen plant lifetime", "hydrogen-lifetime.md#8"),
        ("pumped hydro siting", "pumped-hydro-siting.md#2"),
        ("hydrogen siting salt caverns", "hydrogen-siting.md#2"),
        ("levelised cost of storage comparison", "cost-comparison.md#10"),
        ("island grid with batteries, quarry and hydrogen in tanks", "island-case.pdf#8"),
    ],
)
def test_the_research_corpus_answers_its_goal(
    query: str, source: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    database = tmp_path_factory.getbasetemp() / f"corpus-{os.getpid()}.sqlite"
    assert source in sources(DocumentIndex(CORPUS, database), query)
