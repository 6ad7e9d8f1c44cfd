"""A tool: its spec and the function behind it. The decorator that makes one is in fleet.tools.decorator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.core.outcome import Failure, FailureClass
from fleet.core.tool import ToolSpec
from fleet.core.value import Json
from fleet.tools.context import ToolContext


class ToolFailed(Exception):
    """Raised by a tool to say what went wrong. cls says who deals with it; `permanent` unless told otherwise."""

    def __init__(
        self,
        type: str,
        message: str,
        cls: FailureClass = FailureClass.PERMANENT,
        retry_after: float | None = None,
    ) -> None:
        self.failure = Failure(cls=cls, type=type, message=message, retry_after=retry_after)
        super().__init__(message)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """call(args, ctx) runs it; for an async tool (is_async) it gives an awaitable, to be run on the worker's loop.

    prepare(args) checks resolved arguments against the function's types and gives what call takes; it raises
    ToolFailed of class misuse. takes_context: whether call looks at its context at all.
    """

    spec: ToolSpec
    is_async: bool
    prepare: Callable[[Mapping[str, Json]], dict[str, Any]]
    call: Callable[[dict[str, Any], ToolContext], Any]
    takes_context: bool = True
