"""Puts the folders tasks and scheduler into the wheel as fleet/_apps, and into no editable install.

There they would lie in site-packages/fleet, a folder that hides this checkout's package of that name.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

APPS = ("tasks", "scheduler")


class Apps(BuildHookInterface):  # type: ignore[type-arg]
    """Run by hatchling when it builds a wheel. version: `standard` or `editable`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            build_data["force_include"].update({app: f"fleet/_apps/{app}" for app in APPS})
