"""What a tool may ask of the engine while it runs."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleet.core.outcome import Artifact
from fleet.llm.port import Model


def _no_secret(name: str) -> str:
    raise KeyError(name)


def _no_artifact(content: bytes | Path) -> Artifact:
    raise RuntimeError("no artifact store is at hand")


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolContext:
    """Handed to a tool that takes a parameter `ctx: ToolContext`.

    idempotency_key: the same for every attempt of this call; give it to whatever you change. attempt: 1 for the first.
    deadline: seconds since 1970 past which the outcome no longer counts. cancelled: tells whether to stop.
    secret(name): a secret's value; raises KeyError. progress(text): shown to whoever watches, may be dropped.
    artifact(path or bytes): keeps a big value. model: the light model, billed to the goal. step: the id that the plan
    gave this call, empty outside of a plan. labels: those of the goal.
    """

    idempotency_key: str = ""
    tenant: str = "default"
    attempt: int = 1
    deadline: float = float("inf")
    is_cancelled: Callable[[], bool] = lambda: False
    secret: Callable[[str], str] = _no_secret
    progress: Callable[[str], None] = lambda text: None
    artifact: Callable[[bytes | Path], Artifact] = _no_artifact
    model: Model | None = None
    step: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("fleet.tool"))

    @property
    def cancelled(self) -> bool:
        return self.is_cancelled()
