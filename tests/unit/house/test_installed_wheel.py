"""The wheel as it is installed: everything that runs is inside, and a user's own tasks.py is left alone."""

import configparser
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

IMPORTER = """\
import json, sys
import fleet._apps.tasks.worker, fleet._apps.scheduler.main
import fleet
import tasks
from fleet.store.scripts import LUA
print(json.dumps({
    "fleet": fleet.__file__,
    "worker": fleet._apps.tasks.worker.__file__,
    "own": tasks.MINE,
    "lua": sorted(path.name for path in LUA.rglob("*.lua")),
    "path": [entry for entry in sys.path if entry],
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def files(*folders: str) -> set[str]:
    """What the checkout has there, without what Python writes."""
    found = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    return {path.relative_to(ROOT).as_posix() for path in found if "__pycache__" not in path.parts}


def test_the_wheel_holds_every_file_of_the_fleet_and_no_other(names: list[str]) -> None:
    """Scripts in Lua, prompts and migrations as well, and the two leaf apps inside."""
    wanted = files("fleet") | {f"fleet/_apps/{name}" for name in files("tasks", "scheduler")}
    assert {name for name in names if name.startswith("fleet/")} == wanted
    for kind in (".lua", ".md", "py.typed", "_record.py"):
        assert any(name.endswith(kind) for name in names), kind


def test_the_wheel_has_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        entry = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        scripts = configparser.ConfigParser()
        scripts.read_string(archive.read(entry).decode())
    assert dict(scripts["console_scripts"]) == {"fleet": "fleet.cli.main:main"}


def test_an_installed_wheel_runs_beside_a_users_own_tasks(wheel: Path, tmp_path: Path) -> None:
    """No checkout on the path: the leaf apps come from the wheel, and `import tasks` is the user's."""
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True, capture_output=True)
    own = tmp_path / "own"
    own.mkdir()
    (own / "tasks.py").write_text('MINE = "untouched"\n')
    (own / "script.py").write_text(IMPORTER)
    # -S: the environment's packages come by PYTHONPATH, without the file in them that leads to this checkout
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FLEET_", "PYTHON"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(target), sysconfig.get_path("purelib")])
    done = subprocess.run(
        [sys.executable, "-S", "script.py"], cwd=own, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["own"] == "untouched"
    assert said["fleet"] == str(target / "fleet" / "__init__.py")
    assert said["worker"] == str(target / "fleet" / "_apps" / "tasks" / "worker.py")
    assert str(ROOT) not in said["path"]
    assert {"claim.lua", "commit.lua", "base.lua"} <= set(said["lua"])
