"""`fleet run --timeout` on a fleet of its own: what it says of the goal is true."""

import re
import subprocess
import sys
from pathlib import Path

from fleet.settings import Settings, child_environment

PLAN = """\
goal: take a while
steps:
  - {id: 1, tool: noop, args: {value: first}}
  - {id: 2, tool: sleep, args: {seconds: 5}, needs: [1]}
answer: "${1} and ${2}"
"""
SETTINGS = """\
tools = "fleet.tools.builtin.testing_aids"
workers = 1
slots = 4
grace = 1.0
heartbeat = 0.2
"""


def begun(folder: Path, *argv: str) -> "subprocess.Popen[str]":
    environment = {k: v for k, v in child_environment(Settings()).items() if not k.startswith("FLEET_")}
    command = [sys.executable, "-m", "fleet", *argv]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def said(folder: Path, *argv: str) -> tuple[int, str, str]:
    process = begun(folder, *argv)
    out, err = process.communicate(timeout=90)
    return process.returncode, out, err


def test_a_goal_that_took_too_long_goes_on_when_its_folder_is_served_again(tmp_path: Path) -> None:
    """R5: run says that its fleet stops, and which command goes on; that command does."""
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "fleet.toml").write_text(SETTINGS)
    code, out, err = said(tmp_path, "run", "plan.yaml", "--timeout", "2")
    assert (code, out) == (6, ""), err
    told = re.search(r"it is kept in (\S+), and goes on when you start `fleet (.+?)`; `fleet (result \S+)` waits", err)
    assert told is not None, err
    folder, up, result = told.groups()
    assert folder == str(tmp_path / ".fleet")
    serving = begun(tmp_path, *up.split(), "--no-flower")
    try:
        assert serving.stderr is not None
        for line in serving.stderr:
            if line.startswith("try: "):
                break
        code, out, err = said(tmp_path, *result.split(), "--timeout", "60")
        assert (code, out) == (0, "first and 5.0\n"), err
    finally:
        serving.terminate()
        serving.communicate(timeout=60)
