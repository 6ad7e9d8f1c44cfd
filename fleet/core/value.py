"""The base of every stored value: frozen, keyword only, unknown fields refused."""

from typing import Any

from pydantic import BaseModel, ConfigDict

Json = Any
"""What JSON can hold: None, bool, int, float, str, list, dict. Checked where it enters, not on every hop."""


class Value(BaseModel):
    """A frozen value. Two with equal fields are equal; none can be changed once made."""

    model_config = ConfigDict(frozen=True, extra="forbid")
