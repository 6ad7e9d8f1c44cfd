"""An expression as a tool takes it: its text, and the values its variables are bound to."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from fleet.core.value import Json

LONGEST = 10_000


@dataclass(frozen=True, slots=True)
class Expression:
    """Text in which a reference such as `$3` or `${3.rows.0}` is a variable, bound in `variables` and never pasted in.

    Validates from a string, from a number (which is its own text), or from a mapping {"expression": str, "variables":
    {"$3": value}}. Its JSON schema is a string.
    """

    text: str
    variables: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def of(cls, given: object) -> "Expression":
        """Make one of any of the forms above. Raises ValueError for anything else, or above 10,000 characters."""
        if isinstance(given, Expression):
            return given
        variables: object = {}
        if isinstance(given, Mapping) and given.keys() <= {"expression", "variables"}:
            variables = given.get("variables", {})
            given = given.get("expression")
        if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
            given = repr(given)
        if not isinstance(given, str) or not isinstance(variables, Mapping):
            raise ValueError("should be an expression, as a string")
        if len(given) > LONGEST:
            raise ValueError(f"should have at most {LONGEST} characters")
        return cls(given, dict(variables))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls.of)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string"}
