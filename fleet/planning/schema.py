"""Checks a value against the part of JSON Schema that pydantic emits for the parameters of a function.

Known: type, enum, const, anyOf, oneOf, allOf, $ref to $defs, items, prefixItems, properties, required,
additionalProperties, minimum and maximum (also exclusive), lengths. Other keywords (pattern, format) are left to the
tool's own check when it runs.
"""

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fleet.core.value import Json

Place = tuple[str | int, ...]
Schema = Mapping[str, Json]
_DEEPEST = 100


def mistakes(value: Json, schema: Schema, at: Place, free: Container[Place], root: Schema) -> Iterator[str]:
    """What is wrong with a value, one sentence each.

    at: where it stands (its argument's name first). free: places whose value is not known yet and so is never wrong.
    root: the schema that holds `$defs`.
    """
    return _Checker(free, root.get("$defs", {})).check(value, schema, at, 0)


@dataclass(frozen=True, slots=True)
class _Checker:
    free: Container[Place]
    defs: Mapping[str, Schema]

    def check(self, value: Json, schema: Json, at: Place, depth: int) -> Iterator[str]:
        if at in self.free or not isinstance(schema, Mapping) or depth > _DEEPEST:
            return
        if "$ref" in schema:
            yield from self.check(value, self.defs.get(str(schema["$ref"]).rpartition("/")[2], {}), at, depth + 1)
        yield from self.unions(value, schema, at, depth)
        wrong = _wrong_type(value, schema) or _wrong_choice(value, schema) or _wrong_size(value, schema)
        if wrong:
            yield f"{_name(at)} {wrong}; it is {_show(value)}"
        elif isinstance(value, Mapping):
            yield from self.object(value, schema, at, depth)
        elif isinstance(value, list):
            yield from self.items(value, schema, at, depth)

    def unions(self, value: Json, schema: Schema, at: Place, depth: int) -> Iterator[str]:
        for part in schema.get("allOf", ()):
            yield from self.check(value, part, at, depth + 1)
        options = schema.get("anyOf") or schema.get("oneOf") or ()
        found = [list(self.check(value, option, at, depth + 1)) for option in options]
        if found and all(found):
            yield min(found, key=len)[0] if len(found) == 1 else self.none_of(value, options, at, found)

    def none_of(self, value: Json, options: Sequence[Schema], at: Place, found: list[list[str]]) -> str:
        inside = [wrongs[0] for wrongs in found if not wrongs[0].startswith(f"{_name(at)} must be")]
        if inside:
            return inside[0]
        kinds = " or ".join(dict.fromkeys(_wanted(option) for option in options))
        return f"{_name(at)} must be {kinds}; it is {_show(value)}"

    def object(self, value: Mapping[str, Json], schema: Schema, at: Place, depth: int) -> Iterator[str]:
        properties = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                yield f'{_name(at)} has no "{name}"'
        rest = schema.get("additionalProperties", True)
        for name, item in value.items():
            if name in properties:
                yield from self.check(item, properties[name], (*at, name), depth + 1)
            elif rest is False:
                yield f'{_name(at)} can\'t have "{name}"; it has {", ".join(properties) or "no fields"}'
            else:
                yield from self.check(item, rest, (*at, name), depth + 1)

    def items(self, value: list[Json], schema: Schema, at: Place, depth: int) -> Iterator[str]:
        fixed = schema.get("prefixItems", ())
        for index, item in enumerate(value):
            inner = fixed[index] if index < len(fixed) else schema.get("items")
            yield from self.check(item, inner, (*at, index), depth + 1)


def _is(value: Json, kind: str) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return {
        "null": value is None,
        "boolean": isinstance(value, bool),
        "integer": number and float(value).is_integer() if number and abs(value) < 1e300 else False,
        "number": number,
        "string": isinstance(value, str),
        "array": isinstance(value, list),
        "object": isinstance(value, Mapping),
    }.get(kind, True)


def _wanted(schema: Schema) -> str:
    if "const" in schema:
        return _show(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(_show(choice) for choice in schema["enum"])
    kinds = schema.get("type", "another value")
    return " or ".join([kinds] if isinstance(kinds, str) else kinds)


def _wrong_type(value: Json, schema: Schema) -> str:
    kinds = schema.get("type")
    if kinds is None or any(_is(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return ""
    return f"must be {_wanted({'type': kinds})}"


def _wrong_choice(value: Json, schema: Schema) -> str:
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if choices is None or any(choice == value and type(choice) is type(value) for choice in choices):
        return ""
    return f"must be {_wanted(schema)}"


def _wrong_size(value: Json, schema: Schema) -> str:
    if _is(value, "number"):
        return _wrong_number(value, schema)
    for kind, low, high in (("string", "minLength", "maxLength"), ("array", "minItems", "maxItems")):
        if _is(value, kind):
            unit = "characters" if kind == "string" else "items"
            if len(value) < schema.get(low, 0):
                return f"must have at least {schema[low]} {unit}"
            if len(value) > schema.get(high, len(value)):
                return f"must have at most {schema[high]} {unit}"
    return ""


def _wrong_number(value: float, schema: Schema) -> str:
    if value < schema.get("minimum", value):
        return f"must be at least {schema['minimum']}"
    if value > schema.get("maximum", value):
        return f"must be at most {schema['maximum']}"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        return f"must be more than {schema['exclusiveMinimum']}"
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        return f"must be less than {schema['exclusiveMaximum']}"
    return ""


def _name(at: Place) -> str:
    rest = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at[1:])
    return f'argument "{at[0]}{rest}"'


def _show(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
