"""What `@tool` makes of a function, and which functions it refuses."""

import asyncio
import inspect
import warnings
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from fleet.core.breaker import BreakerPolicy
from fleet.core.outcome import FailureClass
from fleet.core.plan import Effect
from fleet.core.retry import RetryPolicy
from fleet.tools.context import ToolContext
from fleet.tools.decorator import FunctionTool, IdempotencyUnused, tool
from fleet.tools.expression import Expression
from fleet.tools.tool import Tool, ToolFailed


@tool
def weigh(
    thing: Annotated[str, "what to   weigh"],
    times: Annotated[int, Field(ge=1, le=9, description="how often")] = 1,
    unit: Literal["g", "kg"] = "g",
) -> str:
    """Weigh a thing,
    several times.

    This is not for the model.
    """
    return f"{thing} {times} {unit}"


@tool(effect="writes", name="post_letter", timeout=5, cost=0.1, seconds=2, retries=1, lane="slow", version="7")
async def post(letter: str, ctx: ToolContext) -> str:
    """Post a letter."""
    return f"{ctx.idempotency_key}:{letter}"


def refusal(made: Tool, args: dict[str, Any]) -> ToolFailed:
    with pytest.raises(ToolFailed) as failed:
        made.prepare(args)
    assert failed.value.failure.cls is FailureClass.MISUSE
    assert failed.value.failure.type == "bad_argument"
    return failed.value


def test_a_bare_decorator_takes_all_from_the_function() -> None:
    """R11: positional arguments get their names from the order of the schema's properties."""
    spec = weigh.spec
    assert (spec.name, spec.description) == ("weigh", "Weigh a thing, several times.")
    assert list(spec.parameters["properties"]) == ["thing", "times", "unit"]
    assert spec.parameters["required"] == ["thing"]
    assert spec.parameters["additionalProperties"] is False
    assert spec.parameters["properties"]["thing"] == {"type": "string", "description": "what to weigh"}
    assert spec.parameters["properties"]["times"]["description"] == "how often"
    assert (spec.effect, spec.breaker, spec.retry) == (Effect.READS, BreakerPolicy(), RetryPolicy())


def test_options_say_what_the_engine_needs() -> None:
    spec = post.spec
    assert (spec.name, spec.effect, spec.timeout, spec.cost, spec.seconds) == ("post_letter", Effect.WRITES, 5, 0.1, 2)
    assert (spec.retry.attempts, spec.lane, spec.version) == (2, "slow", "7")
    assert "ctx" not in spec.parameters["properties"]


def test_a_pure_tool_has_no_breaker_unless_it_asks_for_one() -> None:
    """R29: what never leaves the process has no outage."""

    def same(value: int) -> int:
        return value

    assert tool(effect="pure")(same).spec.breaker is None
    assert tool(effect="pure", breaker=BreakerPolicy(failures=2))(same).spec.breaker == BreakerPolicy(failures=2)
    assert tool(breaker=None)(same).spec.breaker is None
    assert tool(description="Other.")(same).spec.description == "Other."


def test_a_decorated_function_is_still_that_function() -> None:
    assert isinstance(weigh, FunctionTool)
    assert isinstance(weigh, Tool)
    assert weigh("egg", unit="kg") == "egg 1 kg"
    assert asyncio.run(post("hi", ctx=ToolContext(idempotency_key="k"))) == "k:hi"


def test_a_sync_tool_is_called_with_what_prepare_gave() -> None:
    assert not weigh.is_async
    assert weigh.call(weigh.prepare({"thing": "egg", "times": "3"}), ToolContext()) == "egg 3 g"


def test_an_async_tool_gives_an_awaitable_and_gets_its_context() -> None:
    assert post.is_async
    given = post.call(post.prepare({"letter": "hi"}), ToolContext(idempotency_key="k"))
    assert inspect.isawaitable(given)

    async def wait() -> object:
        return await given

    assert asyncio.run(wait()) == "k:hi"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, 'argument "thing" is missing'),
        ({"thing": 5}, 'argument "thing"'),
        ({"thing": "egg", "times": "often"}, 'argument "times"'),
        ({"thing": "egg", "times": 10}, "less than or equal to 9"),
        ({"thing": "egg", "unit": "lb"}, "'g' or 'kg'"),
        ({"thing": "egg", "tmes": 2}, 'there is no argument "tmes"; there are: thing, times, unit'),
        ({"thing": "egg", "ctx": {}}, 'there is no argument "ctx"'),
    ],
)
def test_bad_arguments_are_named(args: dict[str, Any], words: str) -> None:
    """R30: what the model got wrong goes back to it in words that it can act on."""
    assert words in str(refusal(weigh, args))
    assert str(refusal(weigh, args)).startswith("weigh: ")


def test_a_refusal_never_repeats_a_value() -> None:
    """R38: an argument may be a secret."""
    assert "hunter2" not in str(refusal(weigh, {"thing": ["hunter2"], "times": "hunter2", "unit": "hunter2"}))


def test_parameters_may_have_names_that_pydantic_uses_itself() -> None:
    @tool(effect="pure")
    def odd(json: int, schema: str, model_config: bool = False, copy: int = Field(default=2, ge=1)) -> int:
        return json

    assert odd.prepare({"json": 1, "schema": "s"}) == {"json": 1, "schema": "s", "model_config": False, "copy": 2}
    assert list(odd.spec.parameters["properties"]) == ["json", "schema", "model_config", "copy"]


def test_an_expression_is_a_string_to_the_model_and_text_with_variables_to_the_tool() -> None:
    """R12: `$1` in an expression is a variable, bound and not pasted."""

    @tool(effect="pure")
    def compute(
        a: Expression, b: Annotated[Expression | None, "another"] = None, c: str = ""
    ) -> str:  # pragma: no cover - only its signature matters
        return a.text

    assert compute.spec.expressions == {"a", "b"}
    assert compute.spec.parameters["properties"]["a"] == {"type": "string"}
    assert compute.prepare({"a": "$1 + 1"})["a"] == Expression("$1 + 1")
    bound = compute.prepare({"a": {"expression": "$1 + 1", "variables": {"$1": 2.5}}, "b": 4})
    assert (bound["a"], bound["b"]) == (Expression("$1 + 1", {"$1": 2.5}), Expression("4"))
    for wrong in ({"text": "1"}, ["1"], None, True, {"expression": 1, "variables": []}, "1" * 10_001):
        assert 'argument "a"' in str(refusal(compute, {"a": wrong}))


def _positional(a: int, /) -> None: ...
def _args(*a: int) -> None: ...
def _keywords(**a: int) -> None: ...
def _bare(a) -> None: ...  # type: ignore[no-untyped-def]
def _bare_ctx(ctx) -> None: ...  # type: ignore[no-untyped-def]
def _two(a: ToolContext, b: ToolContext) -> None: ...
def _unknown(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _uncheckable(a: object, b: Tool) -> None: ...
def _generator(a: int) -> Any:
    yield a


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_positional, "positional only"),
        (_args, "take a list"),
        (_keywords, "take a dict"),
        (_bare, '"a" needs a type annotation'),
        (_bare_ctx, '"ctx" needs a type annotation: ToolContext'),
        (_two, "only one parameter may be a ToolContext"),
        (_unknown, "Nowhere"),
        (_uncheckable, "has no JSON schema"),
        (_generator, "generator"),
    ],
)
def test_a_signature_that_cannot_be_checked_is_refused_at_once(function: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        tool(function)


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="there is no option tiemout"):
        tool(tiemout=3)(_positional)  # type: ignore[call-overload]


def test_a_tool_that_writes_without_its_key_gives_a_warning() -> None:
    """R4: without the key, nobody can tell a repeated call from a new one."""

    def burn(what: str) -> None: ...

    with pytest.warns(IdempotencyUnused, match="tool burn writes"):
        tool(effect="writes")(burn)

    def post_it(what: str, ctx: ToolContext) -> None: ...

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tool(effect=Effect.WRITES)(post_it)
