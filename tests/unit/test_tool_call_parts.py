"""Arguments of tool calls, in the forms that servers give them."""

from __future__ import annotations

import pytest

from agent_runtime.errors import ModelResponseError
from agent_runtime.llm.chat_model import Usage
from agent_runtime.llm.tool_call_parts import ToolCallParts, tool_calls

NO_USAGE = Usage()


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (" ", {}),
        ("null", {}),
        ('""', {}),
        ('"{\\"a\\": 1}"', {"a": 1}),
    ],
)
def test_no_arguments_and_texts_of_objects_are_understood(
    text: str, arguments: dict[str, int]
) -> None:
    """Nothing, null and an object written as a text all say what is meant."""
    [call] = tool_calls([ToolCallParts("c", "look", text)], "tool_calls", NO_USAGE)

    assert call.arguments == arguments


@pytest.mark.parametrize("text", ["[1]", "3", '"[1]"', '"x"', "{", '"\\"{}\\""'])
def test_all_else_is_malformed(text: str) -> None:
    """Nobody guesses."""
    with pytest.raises(ModelResponseError) as caught:
        tool_calls([ToolCallParts("c", "look", text)], "tool_calls", NO_USAGE)

    assert caught.value.details_map["reason"] == "malformed_arguments"
