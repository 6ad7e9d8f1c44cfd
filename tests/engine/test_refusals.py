"""What `fleet up` refuses, in one sentence and before anything of a fleet is started."""

import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from fleet.settings import Settings, child_environment

Start = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def up(tmp_path: Path) -> Start:
    """Starts `fleet up` on the folder f, to its end, and sees that nothing is left of it."""

    def start(*argv: str, bytes_a_file: int | None = None, **variables: str) -> "subprocess.CompletedProcess[str]":
        def limit() -> None:
            if bytes_a_file is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_a_file, bytes_a_file))

        command = [sys.executable, "-m", "fleet", "up", "--data", str(tmp_path / "f"), *argv]
        environment = child_environment(Settings()) | variables
        del environment["FLEET_DATA"]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=limit,
            check=False,
        )
        assert not [each.pid for each in psutil.process_iter(["cwd"]) if each.info["cwd"] == str(tmp_path)]
        return done

    return start


@pytest.fixture
def port() -> Iterator[int]:
    """One that somebody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_a_port_that_is_taken_is_named_with_the_way_out(up: Start, port: int, tmp_path: Path) -> None:
    done = up(FLEET_FLOWER_PORT=str(port))
    assert done.returncode == 7
    assert done.stderr == f"fleet: port {port} is taken: choose another with FLEET_FLOWER_PORT, or 0 for a free one\n"
    assert not (tmp_path / "f").exists()


def test_a_disk_that_takes_nothing_is_told_before_anything_starts(up: Start, tmp_path: Path) -> None:
    """The limit of a process stands for that of a disk: its writes fail in the same way."""
    done = up("--no-flower", bytes_a_file=1000)
    assert done.returncode == 2
    assert done.stderr == (
        f"fleet: the data folder {tmp_path / 'f'} can't be used (File too large): choose another with --data\n"
    )
    assert not (tmp_path / "f" / "redis").exists()


def test_a_folder_that_is_none_is_told(up: Start, tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "logs").write_text("")
    done = up("--no-flower")
    assert done.returncode == 2
    assert "can't be used (File exists)" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_worker_that_can_not_start_is_told_in_one_sentence_with_its_last_words(up: Start) -> None:
    done = up("--no-flower", "--workers", "1", "--tools", "no_such_module")
    assert done.returncode == 1
    assert done.stderr.startswith("fleet: worker w1 does not start: ")
    assert "no_such_module" in done.stderr
    assert done.stderr.count("\n") == 1
