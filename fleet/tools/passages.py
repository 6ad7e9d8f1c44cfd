"""The texts in a value that an earlier step gave, each with the source it names."""

from typing import NamedTuple

from fleet.core.outcome import FailureClass
from fleet.core.value import Json
from fleet.tools.tool import ToolFailed


class Passage(NamedTuple):
    """A text, and where it is from (`a.md#12`, a URL), or nothing."""

    text: str
    source: str = ""


def passages(value: Json, tool: str) -> list[Passage]:
    """The passages of a text, of an object with `text` (and `source` or `url`), or of a list of these.

    Raises ToolFailed (misuse, bad_argument) in the name of `tool` when there is none.
    """
    found = _found(value)
    if not found:
        raise ToolFailed("bad_argument", f'{tool}: argument "text" holds no text', FailureClass.MISUSE)
    return found


def _found(value: Json) -> list[Passage]:
    if isinstance(value, list | tuple):
        return [passage for each in value for passage in _found(each)]
    if isinstance(value, dict):
        source = str(value.get("source") or value.get("url") or "")
        return [Passage(each.text, source or each.source) for each in _found(value.get("text"))]
    return [Passage(value)] if isinstance(value, str) and value.strip() else []
