"""`@tool`: makes a tool of a typed Python function."""

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack, overload

from fleet.core.breaker import BreakerPolicy
from fleet.core.plan import Effect
from fleet.core.retry import RetryPolicy
from fleet.core.tool import ToolSpec
from fleet.tools.context import ToolContext
from fleet.tools.signature import Signature
from fleet.tools.tool import Tool

P = ParamSpec("P")
R = TypeVar("R")


class IdempotencyUnused(UserWarning):
    """A tool that writes takes no `ctx`, so that it can't hand its idempotency key to what it changes."""


class ToolOptions(TypedDict, total=False):
    """What may be said of a tool beside its function.

    name: its function's, if not given. effect: `pure`, `reads` (if not given) or `writes`. timeout, seconds (expected):
    seconds. cost: dollars a call. retries: tries after the first, or a policy. breaker: None for none; if not given, a
    pure tool has none and another has the default policy. description: instead of the docstring's first paragraph.
    model: whether it calls a model.
    """

    name: str
    effect: Effect | str
    timeout: float
    cost: float
    seconds: float
    retries: int | RetryPolicy
    breaker: BreakerPolicy | None
    lane: str
    version: str
    description: str
    model: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionTool(Tool, Generic[P, R]):
    """A tool made of a function; calling it calls the function, as if it had not been decorated."""

    function: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Make a tool of a typed function, sync or async: bare (`@tool`) or with options (`@tool(effect="pure")`).

    The schema comes from the annotations, in the order of the parameters; their descriptions from `Annotated[int, "how
    many"]` or a Field. A parameter annotated `ToolContext` is given by the engine and is no part of the schema. Raises
    TypeError for a signature that can't be called by name with checked values, or an option that does not exist. Warns
    with IdempotencyUnused.
    """
    if function is None:
        return lambda decorated: _made(decorated, options, stacklevel=3)
    return _made(function, options, stacklevel=3)


def _made(function: Callable[..., Any], options: ToolOptions, stacklevel: int) -> FunctionTool[..., Any]:
    name = str(options.get("name") or getattr(function, "__name__", ""))
    if unknown := sorted(options.keys() - ToolOptions.__annotations__.keys()):
        raise TypeError(f"tool {name}: there is no option {', '.join(unknown)}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"tool {name}: a tool returns one value; it can't be a generator")
    signature = Signature(function, name)
    spec = _spec(function, name, signature, options)
    if spec.effect is Effect.WRITES and not signature.context:
        warnings.warn(
            f"tool {name} writes, but takes no `ctx: ToolContext`: give ctx.idempotency_key to what it changes, "
            "so that a call whose outcome is in doubt can be told from a new one",
            IdempotencyUnused,
            stacklevel=stacklevel,
        )
    return FunctionTool(
        spec=spec,
        is_async=inspect.iscoroutinefunction(function),
        prepare=signature.prepare,
        call=_caller(function, signature.context),
        takes_context=bool(signature.context),
        function=function,
    )


def _spec(function: Callable[..., Any], name: str, signature: Signature, options: ToolOptions) -> ToolSpec:
    effect = Effect(options.get("effect", Effect.READS))
    given: dict[str, Any] = {k: v for k, v in options.items() if k not in ("retries", "breaker")}
    retries = options.get("retries")
    if retries is not None:
        given["retry"] = RetryPolicy(attempts=retries + 1) if isinstance(retries, int) else retries
    return ToolSpec(
        **given
        | {
            "name": name,
            "effect": effect,
            "description": options.get("description") or _first_paragraph(function),
            "parameters": signature.parameters,
            "expressions": signature.expressions,
            "breaker": options.get("breaker", None if effect is Effect.PURE else BreakerPolicy()),
        }
    )


def _first_paragraph(function: Callable[..., Any]) -> str:
    paragraph, _, _ = (inspect.getdoc(function) or "").partition("\n\n")
    return " ".join(paragraph.split())


def _caller(function: Callable[..., Any], context: str) -> Callable[[dict[str, Any], ToolContext], Any]:
    def call(args: Mapping[str, Any], ctx: ToolContext) -> Any:
        given = {context: ctx} if context else {}
        return function(**args, **given)

    return call
