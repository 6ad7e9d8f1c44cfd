"""From a Python signature to what a tool needs of it: a JSON schema, and a check of arguments."""

import inspect
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticSchemaGenerationError, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic_core import ErrorDetails

from fleet.core.outcome import FailureClass
from fleet.core.value import Json
from fleet.tools.context import ToolContext
from fleet.tools.expression import Expression
from fleet.tools.tool import ToolFailed

SHOWN = 5
REFUSED_KINDS: Mapping[object, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional only, but tools are called by name: drop the `/`",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments: take a list instead",
    inspect.Parameter.VAR_KEYWORD: "takes any keyword: take a dict instead",
}


class Signature:
    """The parameters of one function, as data.

    context: the name of its `ToolContext` parameter, or empty. parameters: its JSON schema. expressions: the names of
    parameters of type Expression. Raises TypeError for a signature that a tool can't have.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.name = name
        hints = _hints(function, name)
        taken = {p.name: _checked(p, hints, name) for p in inspect.signature(function).parameters.values()}
        contexts = [each for each in taken if hints[each] is ToolContext]
        if len(contexts) > 1:
            raise TypeError(f"tool {name}: only one parameter may be a ToolContext, not {' and '.join(contexts)}")
        self.context = contexts[0] if contexts else ""
        self._fields = {each: f"p{n}" for n, each in enumerate(taken) if each not in contexts}
        self._model = _model(name, {each: (hints[each], taken[each].default) for each in self._fields}, self._fields)
        self.parameters = _schema(self._model, name)
        self.expressions = frozenset(each for each in self._fields if _is_expression(hints[each]))

    def prepare(self, args: Mapping[str, Json]) -> dict[str, Any]:
        """Arguments with the types that the function declares. Raises ToolFailed (misuse, `bad_argument`).

        The message names each bad argument and never repeats a value, since a value may be a secret.
        """
        try:
            checked = self._model.model_validate(dict(args))
        except ValidationError as wrong:
            details = wrong.errors(include_url=False, include_context=False, include_input=False)
            words = "; ".join(self._sentence(each) for each in details[:SHOWN])
            more = f"; and {len(details) - SHOWN} more" if len(details) > SHOWN else ""
            raise ToolFailed("bad_argument", f"{self.name}: {words}{more}", FailureClass.MISUSE) from None
        return {each: getattr(checked, field) for each, field in self._fields.items()}

    def _sentence(self, detail: ErrorDetails) -> str:
        where = ".".join(str(part) for part in detail["loc"])[:100]
        match detail["type"]:
            case "missing" if len(detail["loc"]) == 1:
                return f'argument "{where}" is missing'
            case "extra_forbidden" if len(detail["loc"]) == 1:
                return f'there is no argument "{where}"; there are: {", ".join(self._fields) or "none"}'
            case "union_tag_invalid":
                return f'argument "{where}" is of no known kind'
        return f'argument "{where}": {detail["msg"].removeprefix("Value error, ")}'


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as unknown:
        raise TypeError(
            f"tool {name}: an annotation can't be resolved ({unknown}); define the type at the module's top level"
        ) from unknown


def _checked(parameter: inspect.Parameter, hints: Mapping[str, Any], name: str) -> inspect.Parameter:
    if refusal := REFUSED_KINDS.get(parameter.kind):
        raise TypeError(f'tool {name}: parameter "{parameter.name}" {refusal}')
    if parameter.name not in hints:
        hint = ": ToolContext" if parameter.name == "ctx" else ", from which the schema is made"
        raise TypeError(f'tool {name}: parameter "{parameter.name}" needs a type annotation{hint}')
    return parameter


def _model(name: str, declared: Mapping[str, tuple[Any, Any]], fields: Mapping[str, str]) -> type[BaseModel]:
    """A model with one field a parameter. Fields have names of their own, so that a parameter may be called `json`."""
    definitions: dict[str, Any] = {
        fields[each]: (
            Annotated[_documented(hint), Field(alias=each)],
            ... if default is inspect.Parameter.empty else default,
        )
        for each, (hint, default) in declared.items()
    }
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False, validate_default=False)
    try:
        return create_model(f"{name}_arguments", __config__=config, **definitions)
    except (PydanticSchemaGenerationError, PydanticUserError) as refused:
        raise TypeError(f"tool {name}: a parameter's type can't be checked: {refused.message}") from refused


def _documented(hint: Any) -> Any:
    """The hint, with a text in its Annotated turned into the field's description."""
    if get_origin(hint) is not Annotated:
        return hint
    base, *extras = get_args(hint)
    kept = [Field(description=" ".join(extra.split())) if isinstance(extra, str) else extra for extra in extras]
    return Annotated[(base, *kept)]


def _schema(model: type[BaseModel], name: str) -> dict[str, Json]:
    try:
        whole = model.model_json_schema(by_alias=True)
    except PydanticInvalidForJsonSchema as refused:
        raise TypeError(f"tool {name}: a parameter's type has no JSON schema: {refused.message}") from refused
    whole.pop("title", None)
    for described in whole.setdefault("properties", {}).values():
        described.pop("title", None)
    return whole


def _is_expression(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _is_expression(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return any(_is_expression(each) for each in get_args(hint))
    return hint is Expression
