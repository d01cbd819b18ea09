"""Methods as tools: what the model is told of them, and what becomes of its arguments."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from agent_runtime import tool
from agent_runtime.errors import ConfigurationError
from agent_runtime.generation.tool_method import tool_methods
from agent_runtime.json_value import Json
from agent_runtime.session.tool import Tool


class Shop:
    """Has tools."""

    @tool()
    async def order(
        self,
        item: Annotated[str, Field(description="What to order.")],
        count: int = 1,
        size: Literal["small", "large"] = "small",
    ) -> str:
        """Order something."""
        return f"{count} {size} {item}"

    @tool(description="Lists what there is.")
    async def stock(self) -> dict[str, int]:
        """Say it."""
        return {"tea": 3}

    async def secret(self) -> None:
        """Is no tool."""


class Bazaar(Shop):
    """Has one tool less and one other."""

    async def stock(self) -> dict[str, int]:
        """Is no tool here."""
        return {}


@pytest.fixture
def tools() -> dict[str, Tool]:
    """The shop's, by name."""
    return {each.name: each for each in tool_methods(Shop())}


def test_the_model_is_told_name_description_and_schema(tools: dict[str, Tool]) -> None:
    """By decorator or docstring, from the annotations."""
    assert {name: each.description for name, each in tools.items()} == {
        "order": "Order something.",
        "stock": "Lists what there is.",
    }
    assert tools["order"].parameters == {
        "type": "object",
        "properties": {
            "item": {"type": "string", "description": "What to order."},
            "count": {"type": "integer", "default": 1},
            "size": {"type": "string", "enum": ["small", "large"], "default": "small"},
        },
        "required": ["item"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("order", {"item": "tea"}, "1 small tea"),
        ("order", {"item": "tea", "count": "2", "size": "large"}, "2 large tea"),
        ("order", {}, "Error: item: Field required"),
        ("order", {"item": "tea", "count": "x", "sugar": 1}, None),
        ("stock", {}, '{"tea":3}'),
    ],
)
async def test_arguments_are_checked(
    tools: dict[str, Tool], name: str, arguments: dict[str, Json], answer: str | None
) -> None:
    """Sound ones reach the method in its types; of others the model is told what is wrong."""
    told = await tools[name].execute(arguments)

    if answer is None:
        assert told.startswith("Error: ") and "count: " in told and "sugar: " in told
    else:
        assert told == answer


def test_an_override_without_a_mark_is_no_tool() -> None:
    """As with `@callable()`."""
    assert [each.name for each in tool_methods(Bazaar())] == ["order"]


def test_a_method_that_cannot_be_a_tool_is_refused() -> None:
    """Plain methods at once, parameters nobody can describe when they are looked at."""
    with pytest.raises(ConfigurationError, match="async def"):

        @tool()
        def plain() -> None: ...

    with pytest.raises(TypeError, match="parentheses"):
        tool(description=Shop.secret)  # type: ignore[arg-type]

    class Bare:
        @tool()
        async def untyped(self, item) -> None: ...  # type: ignore[no-untyped-def]

    class Odd:
        @tool()
        async def odd(self, item: Tool, other: Any) -> None: ...

    class Many:
        @tool()
        async def many(self, *items: str) -> None: ...

    class Foreign:
        @tool()
        async def погода(self, city: str) -> None: ...

    with pytest.raises(ConfigurationError, match=r"Many\.many.*by name"):
        tool_methods(Many())
    with pytest.raises(ConfigurationError, match="no name of a tool"):
        tool_methods(Foreign())
    with pytest.raises(ConfigurationError, match=r"Bare\.untyped.*'item' has no annotation"):
        tool_methods(Bare())
    with pytest.raises(ConfigurationError, match=r"Odd\.odd"):
        tool_methods(Odd())


async def test_parameters_may_have_names_that_pydantic_has() -> None:
    """The model is told the parameters' own names, and gives arguments by them."""

    class Odd:
        @tool()
        async def save(self, schema: str, json: int = 1, model_config: str = "c") -> str:
            """Save."""
            return f"{schema} {json} {model_config}"

    [save] = tool_methods(Odd())

    assert list(save.parameters["properties"]) == ["schema", "json", "model_config"]
    assert save.parameters["required"] == ["schema"]
    assert await save.execute({"schema": "s", "json": 2}) == "s 2 c"
    told = await save.execute({"schema": "s", "json": "x"})
    assert told.startswith("Error: json: ")
