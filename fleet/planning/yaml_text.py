"""Reads YAML as JSON values: safe tags only, no repeated key, bounded in size also once aliases are expanded."""

import math
from typing import Any

import yaml

from fleet.core.value import Json
from fleet.errors import BadInput

LARGEST = 5_000_000
_MOST_VALUES = 1_000_000
_DEEPEST = 64


class _Loader(yaml.SafeLoader):
    """Dates stay text, as JSON has none."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load_yaml(text: str, source: str) -> tuple[Json, dict[tuple[str | int, ...], int]]:
    """The document as a JSON value, keys as text, and the line (from 1) of each value up to two levels deep.

    source: how to name the text. Raises BadInput, with the line, for YAML that is malformed, repeats a key, is larger
    than 5 MB, or holds what JSON can't.
    """
    if len(text.encode("utf-8", "replace")) > LARGEST:
        raise BadInput(f"{source} is larger than {LARGEST:,} bytes: split it, or let a tool read the data")
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise BadInput(f"{source} is empty")
        _Walk(source).check(node)
        value = loader.construct_document(node)
        return _json(value, source), _lines(node)
    except yaml.MarkedYAMLError as bad:
        where = f", line {bad.problem_mark.line + 1}" if bad.problem_mark else ""
        raise BadInput(f"{source}{where}: not valid YAML: {bad.problem or bad.context}") from bad
    except yaml.YAMLError as bad:
        raise BadInput(f"{source}: not valid YAML: {bad}") from bad
    except RecursionError:
        raise BadInput(f"{source} is nested too deep") from None


class _Walk:
    """Counts the values of a node graph with aliases expanded, each node once."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.sizes: dict[int, int] = {}
        self.within: set[int] = set()

    def check(self, node: yaml.Node) -> int:
        known = self.sizes.get(id(node))
        if known is not None:
            return known
        if id(node) in self.within:
            raise self.bad(node, "an alias contains itself")
        self.within.add(id(node))
        if len(self.within) > _DEEPEST:
            raise self.bad(node, f"it is nested more than {_DEEPEST} deep")
        if isinstance(node, yaml.MappingNode):
            self.keys(node)
        size = 1 + sum(self.check(child) for child in _children(node))
        if size > _MOST_VALUES:
            raise self.bad(node, f"it holds more than {_MOST_VALUES:,} values once its aliases are expanded")
        self.within.discard(id(node))
        self.sizes[id(node)] = size
        return size

    def keys(self, node: yaml.MappingNode) -> None:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.bad(key, "a key must be a text")
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise self.bad(key, f'the key "{key.value}" is given twice')
            seen.add(key.value)

    def bad(self, node: yaml.Node, why: str) -> BadInput:
        return BadInput(f"{self.source}, line {node.start_mark.line + 1}: {why}")


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _json(value: Any, source: str) -> Json:
    if isinstance(value, dict):
        return {_key(key): _json(item, source) for key, item in value.items()}
    if isinstance(value, list):
        return [_json(item, source) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"{source}: {value} is no JSON number")
    if value is None or isinstance(value, str | int | float):
        return value
    raise BadInput(f"{source}: a {type(value).__name__} can't be a value here: write it as text, in quotes")


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _lines(node: yaml.Node, at: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], int]:
    found = {at: node.start_mark.line + 1}
    if len(at) == 2:
        return found
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            found |= _lines(child, (*at, key.value)) | {(*at, key.value): key.start_mark.line + 1}
    elif isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            found |= _lines(child, (*at, index))
    return found
