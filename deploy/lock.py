"""Writes deploy/requirements.txt: of the pins in requirements/dev.txt, those that a running fleet needs.

    python deploy/lock.py

Run it where requirements/dev.txt is installed, whenever that file changes. A test says when it was forgotten.
"""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
IMAGES = [
    {"python_full_version": version, "python_version": version.rpartition(".")[0], "platform_machine": machine}
    for version in ("3.11.0", "3.11.9", "3.12.9", "3.13.9")
    for machine in ("x86_64", "aarch64")
]
"""What PYTHON_IMAGE may bring; all of them Linux."""
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==")


def needed() -> set[str]:
    """The names of all packages that the project needs, without its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    seen: set[tuple[str, str]] = set()
    waiting = [pair for listed in project["dependencies"] for pair in _wanted(Requirement(listed))]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for requirement in _requirements(name):
            if _applies(requirement.marker, extra):
                waiting += _wanted(requirement)
    return {name for name, _ in seen}


def _applies(marker: Marker | None, extra: str) -> bool:
    """Whether a requirement holds in any image that somebody may build: its pin keeps the marker, for pip to heed."""
    return marker is None or any(marker.evaluate({"extra": extra} | image) for image in IMAGES)


def _wanted(requirement: Requirement) -> list[tuple[str, str]]:
    return [(canonicalize_name(requirement.name), extra) for extra in ("", *requirement.extras)]


def _requirements(name: str) -> list[Requirement]:
    try:
        return [Requirement(listed) for listed in requires(name) or []]
    except PackageNotFoundError:  # a package for another platform
        return []


def blocks(text: str) -> dict[str, str]:
    """Each package's name to its pin with hashes, as a lock file has them."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        pin = _PIN.match(line)
        if pin:
            name = canonicalize_name(pin[1])
        if name and line.strip() and not line.lstrip().startswith("#"):
            found[name] = found.get(name, "") + line + "\n"
    return found


def locked() -> str:
    """The text of deploy/requirements.txt."""
    pins = blocks((ROOT / "requirements" / "dev.txt").read_text())
    return "".join(pins[name] for name in sorted(needed() & set(pins)))


if __name__ == "__main__":
    (ROOT / "deploy" / "requirements.txt").write_text(locked())
