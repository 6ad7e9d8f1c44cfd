"""What an installation brings into site-packages: one import name from a wheel, none from a checkout."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILD = "import sys; from hatchling import build; getattr(build, sys.argv[1])(sys.argv[2])"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("fleet", "tasks", "scheduler"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def built(checkout: Path, kind: str, folder: Path) -> list[str]:
    """The paths in the wheel that this kind of build makes, those about the distribution left out."""
    subprocess.run([sys.executable, "-c", BUILD, kind, str(folder)], cwd=checkout, check=True, capture_output=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        return [name for name in wheel.namelist() if ".dist-info/" not in name]


def test_a_wheel_brings_the_import_name_fleet_and_no_other(checkout: Path, tmp_path: Path) -> None:
    names = built(checkout, "build_wheel", tmp_path)
    assert {name.partition("/")[0] for name in names} == {"fleet"}
    assert {"fleet/_apps/tasks/worker.py", "fleet/_apps/scheduler/main.py"} <= set(names)
    assert any(name.endswith(".lua") for name in names)
    assert any(name.endswith(".md") for name in names)


def test_an_editable_install_hides_no_package_of_the_checkout(checkout: Path, tmp_path: Path) -> None:
    names = built(checkout, "build_editable", tmp_path)
    assert names
    assert not [name for name in names if name.startswith(("fleet/", "tasks/", "scheduler/"))]
