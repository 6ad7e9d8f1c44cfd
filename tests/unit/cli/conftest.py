"""A command in an empty folder, in this process, with what it printed."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleet.cli.main import main


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no setting in the environment."""
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("FLEET_")]:
        monkeypatch.delenv(variable)
    return tmp_path


@pytest.fixture
def fleet(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def command(*argv: str) -> Said:
        code = main(argv)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return command
