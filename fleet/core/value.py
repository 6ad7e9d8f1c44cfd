"""The base of every stored value: frozen, keyword only, unknown fields refused."""

from typing import Any

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

Json = Any
"""What JSON can hold: None, bool, int, float, str, list, dict. Checked where it enters, not on every hop."""


class Value(BaseModel):
    """A frozen value. Two with equal fields are equal; none can be changed once made."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Tagged(Value):
    """A member of a closed union, told apart by its `kind`, which is written even where defaults are left out."""

    @model_serializer(mode="wrap")
    def _with_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Json]:
        return {"kind": getattr(self, "kind", ""), **handler(self)}
