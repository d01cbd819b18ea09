"""Answers as they are stored: parts, results, and calls that were left open."""

from __future__ import annotations

import pytest

from agent_runtime.generation.answer_message import (
    INTERRUPTED,
    answer_message,
    has_open_calls,
    with_interrupted_calls,
    with_results,
    with_unique_calls,
)
from agent_runtime.generation.chat_request import chat_request
from agent_runtime.json_value import Json
from agent_runtime.llm import ChatImage, ChatMessage, ChatResponse, ToolCall
from agent_runtime.session.message import message_json, text_message

CALLS = (ToolCall("c1", "look", {"at": "sky"}), ToolCall("c2", "wait"))
RESPONSE = ChatResponse("Let me see.", CALLS, "tool_calls", model="m", reasoning="Hm.")


def test_an_answer_keeps_reasoning_text_and_calls_in_order() -> None:
    """In the parts that chat pages know; it is a message that can be stored."""
    message = answer_message("msg-1", RESPONSE)

    assert [part["type"] for part in message["parts"]] == [
        "reasoning", "text", "tool-look", "tool-wait",
    ]  # fmt: skip
    assert message["parts"][2] == {
        "type": "tool-look",
        "toolCallId": "c1",
        "toolName": "look",
        "state": "input-available",
        "input": {"at": "sky"},
    }
    assert message_json(message)
    assert has_open_calls(message)


def test_results_close_the_calls_that_they_belong_to() -> None:
    """Others stay open, until they are closed with an error; text stays as it is."""
    half = with_results(answer_message("msg-1", RESPONSE), {"c1": "blue"})
    closed = with_interrupted_calls(half)

    assert has_open_calls(half)
    assert not has_open_calls(closed)
    assert closed["parts"][:3] == half["parts"][:3]
    assert closed["parts"][3]["state"] == "output-error"
    assert closed["parts"][3]["errorText"] == INTERRUPTED


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "tool-look"},
        {"type": "tool-look", "toolCallId": "c", "state": "approval-requested", "input": {}},
        {"type": "tool-look", "toolCallId": "c", "state": "output-available", "output": None},
        {"type": "tool-look", "state": "input-available", "input": {}},
    ],
)
def test_what_is_not_ours_to_close_is_not_open(part: dict[str, Json]) -> None:
    """Text, what waits for a person, null results, calls without an id."""
    assert not has_open_calls({"id": "m", "role": "assistant", "parts": [part]})


def test_a_user_s_message_has_no_open_calls() -> None:
    """Whatever it holds."""
    message = {**answer_message("m", RESPONSE), "role": "user"}

    assert not has_open_calls(message)


def test_calls_of_one_id_are_told_apart() -> None:
    """Each gets its own result; ids that are unique already stay."""
    calls = [ToolCall(each, "look") for each in ("c", "c", "c-2", "c")]
    unique = with_unique_calls(ChatResponse(tool_calls=tuple(calls)))

    ids = [call.call_id for call in unique.tool_calls]
    assert ids[0] == "c"
    assert len(set(ids)) == 4


def test_a_conversation_becomes_a_request() -> None:
    """The prompt first; each result behind its call; files as a line; blank prompts left out."""
    answer = with_results(answer_message("msg-1", RESPONSE), {"c1": "blue", "c2": "done"})
    user = text_message("user", "What is up?", id="u1")
    user["parts"].append({"type": "file", "url": "https://host/sky.png", "mediaType": "image/png"})
    request = chat_request("Be brief.", [user, answer], [])

    assert request.messages == (
        ChatMessage("system", "Be brief."),
        ChatMessage(
            "user",
            "What is up?\n[file: image/png https://host/sky.png]",
            images=(ChatImage("https://host/sky.png", "image/png"),),
        ),
        ChatMessage("assistant", "Let me see.", CALLS),
        ChatMessage("tool", "blue", tool_call_id="c1"),
        ChatMessage("tool", "done", tool_call_id="c2"),
    )
    assert chat_request(" ", [user], []).messages[0].role == "user"


@pytest.mark.parametrize(
    ("url", "media_type", "image"),
    [
        ("data:image/gif;base64,R0", None, ChatImage("data:image/gif;base64,R0", "image/gif")),
        ("http://host/a", "image/webp", ChatImage("http://host/a", "image/webp")),
        ("https://host/a.pdf", "application/pdf", None),
        ("https://host/a.png", None, None),
        ("r2://bucket/a.png", "image/png", None),
        ("data:image/png,plain", "image/png", None),
    ],
)
def test_images_that_a_provider_can_read_go_beside_their_line(
    url: str, media_type: str | None, image: ChatImage | None
) -> None:
    """By address or in base64, of a media type that says so; all else is its line alone."""
    user = text_message("user", "Look.", id="u1")
    user["parts"].append({"type": "file", "url": url, "mediaType": media_type})

    [message] = chat_request("", [user], []).messages

    assert message.text.startswith("Look.\n[file: ")
    assert message.images == ((image,) if image else ())


def test_a_tools_error_is_sent_as_one() -> None:
    """So that the model does not take it for a result."""
    answer = answer_message("msg-1", ChatResponse(tool_calls=CALLS[:1]))
    answer["parts"][0] |= {"state": "output-error", "errorText": "no such place"}

    [_, result] = chat_request("", [answer], []).messages

    assert (result.text, result.is_error) == ("no such place", True)


def test_long_results_of_older_messages_are_shortened() -> None:
    """The newest four messages are sent as they are."""
    old = with_results(answer_message("msg-1", RESPONSE), {"c1": "x" * 5_000, "c2": "done"})
    new = with_results(answer_message("msg-2", RESPONSE), {"c1": "y" * 5_000, "c2": "done"})
    users = [text_message("user", "go on", id=f"u{number}") for number in range(3)]
    sent = chat_request("", [old, *users, new], []).messages

    texts = [message.text for message in sent if message.tool_call_id.startswith("c1")]
    assert len(texts[0]) <= 500 and "truncated" in texts[0]
    assert texts[1] == "y" * 5_000


def test_a_loaded_skill_is_sent_whole_until_it_is_unloaded() -> None:
    """However old: the model is told that it is loaded. Other outputs beside it are shortened."""
    loads = ToolCall("c1", "load_context", {"label": "skills", "key": "tax"})
    response = ChatResponse(tool_calls=(loads, ToolCall("c2", "look")))
    document = "Pay. " * 1_000
    message = answer_message("msg-1", response)
    users = [text_message("user", "go on", id=f"u{number}") for number in range(4)]

    def sent(output: str) -> list[str]:
        loaded = with_results(message, {"c1": output, "c2": "y" * 5_000})
        messages = chat_request("", [loaded, *users], []).messages
        return [each.text for each in messages if each.role == "tool"]

    whole, other = sent(document)
    assert whole == document
    assert len(other) <= 500
    assert sent("[skill unloaded: tax]")[0] == "[skill unloaded: tax]"
    assert len(sent("Error: " + document)[0]) <= 500
