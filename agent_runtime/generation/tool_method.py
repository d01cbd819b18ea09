"""An agent's methods as tools of its model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from agent_runtime.errors import ConfigurationError, InvalidRequestError
from agent_runtime.json_value import Json, to_json
from agent_runtime.session.tool import Tool

Method = TypeVar("Method", bound=Callable[..., Any])

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

_MARK = "__agent_runtime_tool__"

_Marked: TypeAlias = tuple[str, str, type[BaseModel]]
_known: WeakKeyDictionary[type, tuple[_Marked, ...]] = WeakKeyDictionary()


def tool(*, description: str = "") -> Callable[[Method], Method]:
    """Mark an async method as a tool that the agent's model may ask for in `generate`.

    Its name and its parameters' types are what the model is told, so every parameter needs an
    annotation; arguments are checked against them. What it returns is read by the model: a text as
    it is, anything else as JSON. What it raises is told to the model as an error.

    Args:
        description: For the model; the docstring if not given.
    """
    if not isinstance(description, str):
        raise TypeError("write @tool() with parentheses")

    def mark(method: Method) -> Method:
        if not inspect.iscoroutinefunction(method):
            raise ConfigurationError(f"the tool {method.__name__} must be `async def`")
        setattr(method, _MARK, description or inspect.getdoc(method) or "")
        return method

    return mark


def tool_methods(owner: object) -> list[Tool]:
    """Return the tools among an object's methods, by name; an override needs a mark of its own.

    Raises:
        ConfigurationError: A parameter has no annotation, or one that has no JSON schema, or cannot
            be given by name; or providers would refuse the tool's name.
    """
    return [
        Tool(name, description, _parameters(arguments), _runner(getattr(owner, name), arguments))
        for name, description, arguments in _marked(type(owner))
    ]


def _marked(owner: type) -> tuple[_Marked, ...]:
    found = _known.get(owner)
    if found is None:
        found = _known[owner] = tuple(_found(owner))
    return found


def _found(owner: type) -> Iterator[_Marked]:
    for name, method in inspect.getmembers(owner, inspect.isfunction):
        description = getattr(method, _MARK, None)
        if description is not None:
            yield name, description, _arguments(owner, name, method)


def _arguments(owner: type, name: str, method: Callable[..., Any]) -> type[BaseModel]:
    where = f"the tool {owner.__name__}.{name}"
    parameters = list(inspect.signature(method).parameters.values())[1:]
    if any(each.kind not in _NAMED for each in parameters):
        raise ConfigurationError(
            f"{where}: its parameters are given by name; leave out `*`, `**` and `/`"
        )
    try:
        hints = get_type_hints(method, include_extras=True)
        # Under names of their own: `schema`, `json` or `model_x` would meet pydantic's.
        names = {f"argument_{number}": each.name for number, each in enumerate(parameters)}
        fields: dict[str, Any] = {
            field: (hints[each.name], ... if each.default is each.empty else each.default)
            for field, each in zip(names, parameters, strict=True)
        }
        config = ConfigDict(extra="forbid", alias_generator=names.__getitem__)
        arguments: type[BaseModel] = create_model(name, __config__=config, **fields)
        arguments.model_json_schema()
    except KeyError as error:
        raise ConfigurationError(f"{where}: its parameter {error} has no annotation") from None
    except Exception as error:
        raise ConfigurationError(
            f"{where} has parameters without a JSON schema: {error}"
        ) from error
    return arguments


def _parameters(arguments: type[BaseModel]) -> dict[str, Json]:
    schema: dict[str, Json] = arguments.model_json_schema()
    schema.pop("title", None)
    for field in schema.get("properties", {}).values():
        field.pop("title", None)
    return schema


def _runner(method: Callable[..., Any], arguments: type[BaseModel]) -> Callable[..., Any]:
    async def run(given: Mapping[str, Json]) -> str:
        try:
            checked = arguments.model_validate(dict(given))
        except ValidationError as error:
            raise InvalidRequestError(_told(error)) from None
        values = {
            field.alias or name: getattr(checked, name)
            for name, field in arguments.model_fields.items()
        }
        result = await method(**values)
        return result if isinstance(result, str) else to_json(result, what="its result").decode()

    return run


def _told(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'the arguments'}: {each['msg']}"
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    )
