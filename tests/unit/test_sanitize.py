"""Calls and results match after history was cut (sessions 8.6, F26b)."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.compaction.message_parts import has_tool_result, tool_parts_of
from agent_runtime.compaction.sanitize import MISSING_RESULT, sanitize_tool_pairs
from agent_runtime.compaction.tool_pairs import tool_answers
from tests.support.histories import (
    History,
    Message,
    call_message,
    chat,
    finished_call,
    histories,
    result_message,
    text_message,
)


def _ids(messages: list[Message]) -> list[str]:
    return [message["id"] for message in messages]


def test_what_matches_stays_the_same() -> None:
    """Matching messages are the very same objects."""
    messages = [*chat(2), finished_call("t", "c"), call_message("a", "d"), result_message("r", "d")]

    assert all(new is old for new, old in zip(sanitize_tool_pairs(messages), messages, strict=True))


def test_a_result_without_its_call_is_dropped() -> None:
    """The part goes, other parts of its message stay; a message of nothing else goes too."""
    mixed = result_message("r1", "gone")
    mixed["parts"].append({"type": "text", "text": "hello"})
    messages = [text_message("u", "hi"), mixed, result_message("r2", "gone")]
    before = copy.deepcopy(messages)

    assert sanitize_tool_pairs(messages) == [
        messages[0],
        {**mixed, "parts": [{"type": "text", "text": "hello"}]},
    ]
    assert messages == before


def test_a_call_without_a_result_gets_one() -> None:
    """A stub right behind the message tells the model where the result is."""
    call = {**call_message("a", "c1", "c2"), "createdAt": "2026-01-01T00:00:00.000Z"}
    sanitized = sanitize_tool_pairs([call, result_message("r", "c2"), text_message("u", "and?")])

    assert _ids(sanitized) == ["a", "stub-c1", "r", "u"]
    assert sanitized[1] == {
        "id": "stub-c1",
        "role": "assistant",
        "parts": [
            {
                "type": "tool-result",
                "toolCallId": "c1",
                "toolName": "look",
                "result": "[Result from earlier conversation — see context summary above]",
            }
        ],
        "createdAt": "2026-01-01T00:00:00.000Z",
    }


def test_a_call_of_an_unknown_tool_gets_one_too() -> None:
    """A part that tells no name is answered for the tool `unknown`."""
    part = {"type": "dynamic-tool", "toolCallId": "c"}
    stub = sanitize_tool_pairs([{"id": "a", "role": "assistant", "parts": [part]}])[1]

    assert stub["parts"][0]["toolName"] == "unknown"


def test_a_result_before_its_call_is_dropped() -> None:
    """Results in the wrong order are none."""
    messages = [result_message("r", "c"), call_message("a", "c")]

    assert _ids(sanitize_tool_pairs(messages)) == ["a", "stub-c"]


def test_ids_that_come_again_are_told_apart() -> None:
    """A second call of the same id is not answered by the first one's result."""
    messages = [call_message("a", "call_0"), result_message("r", "call_0")]
    messages += [text_message("u", "again"), call_message("b", "call_0")]

    assert _ids(sanitize_tool_pairs(messages)) == ["a", "r", "u", "b", "stub-call_0"]


def test_messages_without_parts_are_left_out() -> None:
    """An empty message is nothing a model could read."""
    assert sanitize_tool_pairs([{"id": "m", "role": "user", "parts": []}]) == []


@given(histories() | histories(are_ids_reused=True), st.data())
def test_any_cut_history_is_made_to_match(history: History, data: st.DataObject) -> None:
    """Whatever messages are missing: each call has a result behind it, each result a call."""
    kept = [each for each in history.messages if data.draw(st.booleans())]
    sanitized = sanitize_tool_pairs(kept)
    answered = {
        (answer.call_index, answer.call_id)
        for answer in tool_answers(sanitized)
        if has_tool_result(answer.part)
    }

    for index, message in enumerate(sanitized):
        for part in tool_parts_of(message):
            if part["type"] == "tool-look" and not has_tool_result(part):
                assert (index, part["toolCallId"]) in answered
    answering = {answer.answer_index for answer in tool_answers(sanitized)}
    results = [
        index
        for index, message in enumerate(sanitized)
        if any(part["type"] == "tool-result" for part in tool_parts_of(message))
    ]
    assert set(results) <= answering
    assert sanitize_tool_pairs(sanitized) == sanitized
    assert MISSING_RESULT not in str(kept)
