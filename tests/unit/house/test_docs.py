"""What the documents say is true where a program can tell: tests exist, links lead somewhere."""

import ast
import re
import runpy
from pathlib import Path

import pytest
import yaml

from fleet.core.events import EventType

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "deploy" / "README.md"])
GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text()
NUMBER = re.compile(r"\bR([1-9]\d?)\b")


def shown() -> dict[str, set[int]]:
    """Each test, as path::name below tests/, to the numbers that its docstring names."""
    found = {}
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                numbers = NUMBER.findall(ast.get_docstring(node) or "")
                found[f"{path.relative_to(TESTS).as_posix()}::{node.name}"] = {int(number) for number in numbers}
    return found


def promised() -> dict[int, list[str]]:
    """Each number to the tests that its row names."""
    rows = re.findall(r"^\| R(\d+) \|.*\|(.*)\|$", GUARANTEES, re.MULTILINE)
    return {int(number): re.findall(r"`([^`]+::\w+)`", tests) for number, tests in rows}


def test_every_test_that_a_promise_names_exists_and_names_the_promise() -> None:
    tests = shown()
    named = [(number, test) for number, listed in promised().items() for test in listed]
    assert len(named) > 30
    assert not [(number, test) for number, test in named if number not in tests.get(test, set())]
    assert not [number for number, listed in promised().items() if not listed]


def test_every_number_that_a_test_names_is_a_promise() -> None:
    assert set().union(*shown().values()) == set(promised())


def test_the_page_of_settings_is_the_settings_as_they_are() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "settings_table.py"))
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert page == script["document"](), "run python docs/settings_table.py"
    assert "|  |  |  |" not in page


def test_every_event_is_documented() -> None:
    page = (ROOT / "docs" / "events.md").read_text()
    assert set(re.findall(r"^\| `([a-z_.]+)` \|", page, re.MULTILINE)) == {each.value for each in EventType}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    assert not [link for link in links if "://" not in link and not (page.parent / link).exists()]


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert not [page.name for page in (ROOT / "docs").glob("*.md") if page.name not in index and page.stem != "index"]


def test_what_readme_calls_by_make_is_a_target() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    texts = "".join((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", ".ci/run"))
    called = set(re.findall(r"^ *`?make ([a-z]+)|`make ([a-z]+)`", texts, re.MULTILINE))
    assert {a or b for a, b in called} <= targets


def test_the_hooks_before_a_commit_run_what_make_check_runs() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    entries = {Path(hook["entry"].split()[0]).name for hook in hooks}
    assert {"ruff", "mypy", "lint-imports", "codespell"} <= entries


def test_the_check_of_a_bare_machine_is_a_program() -> None:
    run = ROOT / ".ci" / "run"
    assert run.stat().st_mode & 0o111
    assert "set -euo pipefail" in run.read_text()
