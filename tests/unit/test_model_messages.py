"""What models are sent of stored messages (sessions 25.20, cases 214 to 219; F26b)."""

from __future__ import annotations

import copy
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.compaction.sanitize import MISSING_RESULT
from agent_runtime.session.model_messages import (
    ModelFile,
    ModelMessage,
    ModelToolCall,
    assemble_model_messages,
    to_model_messages,
)
from agent_runtime.session.provider_messages import anthropic_messages, openai_messages
from tests.support.histories import (
    History,
    Message,
    call_message,
    chat,
    finished_call,
    histories,
    result_message,
    summary_message,
    text_message,
)

PNG = "data:image/png;base64,iVBORw0KGgo="


def _roles(messages: list[ModelMessage]) -> list[str]:
    return [message.role for message in messages]


def test_s214_text_is_text() -> None:
    """Two text messages become a user's and an assistant's."""
    assert to_model_messages(chat(2, "hello")) == [
        ModelMessage("user", "hello"),
        ModelMessage("assistant", "hello"),
    ]


def test_s215_a_finished_call_becomes_a_call_and_a_result() -> None:
    """The assistant's message asks, a tool's message answers."""
    messages = [text_message("u", "look"), finished_call("a", "c1", {"found": [1.0]})]

    assert to_model_messages(messages) == [
        ModelMessage("user", "look"),
        ModelMessage("assistant", tool_calls=(ModelToolCall("c1", "look", {"q": 1}),)),
        ModelMessage("tool", '{"found":[1]}', tool_call_id="c1"),
    ]


def test_s216_an_unfinished_call_stays_a_call() -> None:
    """Without repair a call without a result is no error and has no tool message."""
    messages = to_model_messages([text_message("u", "look"), call_message("a", "c1")])

    assert _roles(messages) == ["user", "assistant"]
    assert messages[1].tool_calls == (ModelToolCall("c1", "look", {"q": "c1"}),)


def test_s217_unfinished_calls_can_be_left_out() -> None:
    """The assistant's text stays, its call does not."""
    call = call_message("a", "c1")
    call["parts"].append({"type": "text", "text": "I look."})
    messages = to_model_messages(
        [text_message("u", "look"), call, text_message("v", "and?")],
        ignore_incomplete_tool_calls=True,
    )

    assert messages == [
        ModelMessage("user", "look"),
        ModelMessage("assistant", "I look."),
        ModelMessage("user", "and?"),
    ]


def test_s218_the_roles_of_a_turn_with_a_tool() -> None:
    """User, assistant with a tool and text, user: exactly user, assistant, tool, user."""
    answer = finished_call("a", "c1")
    answer["parts"].append({"type": "text", "text": "Found."})
    messages = to_model_messages([text_message("u", "look"), answer, text_message("v", "thanks")])

    assert _roles(messages) == ["user", "assistant", "tool", "user"]


def test_s219_several_tools_in_one_message() -> None:
    """Two tool parts and a text make two calls and two results."""
    message: Message = {
        "id": "a",
        "role": "assistant",
        "parts": [
            {"type": "text", "text": "Both."},
            {"type": "tool-one", "toolCallId": "c1", "input": {}, "output": 1},
            {"type": "dynamic-tool", "toolName": "two", "toolCallId": "c2", "output": None},
        ],
    }
    asked, *results = to_model_messages([message])

    assert [call.name for call in asked.tool_calls] == ["one", "two"]
    assert results == [
        ModelMessage("tool", "1", tool_call_id="c1"),
        ModelMessage("tool", "null", tool_call_id="c2"),
    ]


def test_results_stored_later_follow_their_calls() -> None:
    """A user who wrote meanwhile comes after the results."""
    messages = [call_message("a", "c1", "c2"), result_message("r2", "c2", "two")]
    messages += [text_message("u", "still there?"), result_message("r1", "c1", "one")]

    assert to_model_messages(messages)[1:] == [
        ModelMessage("tool", "one", tool_call_id="c1"),
        ModelMessage("tool", "two", tool_call_id="c2"),
        ModelMessage("user", "still there?"),
    ]


def test_a_call_told_again_with_its_result_is_one_call() -> None:
    """Two stored messages of one call do not make the model see two."""
    messages = to_model_messages([call_message("a", "c1"), finished_call("b", "c1")])

    assert _roles(messages) == ["assistant", "tool"]


def test_a_call_and_its_result_as_two_parts_of_a_message() -> None:
    """A result part of the same message answers the call."""
    message = call_message("a", "c1")
    message["parts"] += result_message("r", "c1", "here")["parts"]

    assert to_model_messages([message])[1] == ModelMessage("tool", "here", tool_call_id="c1")


def test_steps_are_messages_of_their_own() -> None:
    """What the assistant said after a result comes after it, where the step is marked."""
    message = finished_call("a", "c1")
    message["parts"] += [{"type": "step-start"}, {"type": "text", "text": "Found."}]

    assert _roles(to_model_messages([message])) == ["assistant", "tool", "assistant"]


def test_a_failed_tool_tells_its_error() -> None:
    """The error's text is the result, marked as an error."""
    part = {"type": "tool-x", "toolCallId": "c", "state": "output-error", "errorText": "boom"}
    messages = to_model_messages([{"id": "a", "role": "assistant", "parts": [part]}])

    assert messages[1] == ModelMessage("tool", "boom", tool_call_id="c", is_error=True)
    assert anthropic_messages(messages).messages[-1]["content"][0]["is_error"] is True


def test_ids_that_come_again_are_made_unique() -> None:
    """Providers refuse two calls of one id in a conversation."""
    messages = to_model_messages([finished_call("a", "call_0"), finished_call("b", "call_0")])

    assert [message.tool_call_id for message in messages] == ["", "call_0", "", "call_0-2"]


def test_any_call_is_one_that_every_provider_takes() -> None:
    """One refused id or name would have each later turn of the conversation refused."""
    ids = ["c", "c", "c-2", "functions.f:0", "functions f 0", "x" * 50, "x" * 60, "步"]
    names = ["server.tool", "f", "", "n" * 70]
    parts = [
        finished_call(str(index), call_id)["parts"][0] | {"toolName": names[index % 4]}
        for index, call_id in enumerate(ids)
    ]
    messages = to_model_messages(
        [
            {"id": str(index), "role": "assistant", "parts": [part]}
            for index, part in enumerate(parts)
        ]
    )
    calls = [call for message in messages for call in message.tool_calls]

    assert [call.call_id for call in calls] == [
        "c", "c-2", "c-2-2", "functions_f_0", "functions_f_0-2", "x" * 40, "x" * 38 + "-2", "_",
    ]  # fmt: skip
    assert [call.name for call in calls[:2]] == ["server_tool", "f"]
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", call.name) for call in calls)
    answered = [message.tool_call_id for message in messages if message.role == "tool"]
    assert answered == [call.call_id for call in calls]


def test_reasoning_and_empty_messages_are_left_out() -> None:
    """A message that says nothing to a model is not sent."""
    reasoning = {"id": "a", "role": "assistant", "parts": [{"type": "reasoning", "text": "hm"}]}

    assert to_model_messages([reasoning, {"id": "b", "role": "user", "parts": []}]) == []


def test_files_go_along() -> None:
    """A user's files are sent; an assistant's become a line of text."""
    part = {"type": "file", "url": PNG, "mediaType": "image/png", "filename": "a.png"}
    messages = to_model_messages(
        [{"id": "u", "role": "user", "parts": [part]}, {**text_message("a", "x", "assistant")}]
    )

    assert messages[0].files == (ModelFile(PNG, "image/png", "a.png"),)
    assistant = {"id": "a", "role": "assistant", "parts": [part]}
    assert to_model_messages([assistant])[0].text == "[file: a.png image/png]"


def test_assembly_repairs_what_compaction_cut() -> None:
    """A result without its call goes, a call without its result gets one."""
    visible = [
        summary_message("1", "Summary."),
        result_message("r", "gone"),
        call_message("a", "c1"),
        text_message("u", "and?"),
    ]
    before = copy.deepcopy(visible)

    assert assemble_model_messages(visible) == [
        ModelMessage("assistant", "Summary."),
        ModelMessage("assistant", tool_calls=(ModelToolCall("c1", "look", {"q": "c1"}),)),
        ModelMessage("tool", MISSING_RESULT, tool_call_id="c1"),
        ModelMessage("user", "and?"),
    ]
    assert visible == before


def test_openai_s_form() -> None:
    """Calls carry their arguments as text, results their call's id, images their URL."""
    messages = [
        ModelMessage("system", "Be brief."),
        ModelMessage("user", "look", (ModelFile(PNG), ModelFile("https://example.com/a.csv"))),
        ModelMessage("assistant", tool_calls=(ModelToolCall("c1", "look", {"q": "Ä"}),)),
        ModelMessage("tool", "found", tool_call_id="c1"),
        ModelMessage("user", "", (ModelFile("data:text/csv;base64,YQ==", "", "a.csv"),)),
    ]
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q":"Ä"}'}}

    assert openai_messages(messages) == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": PNG}},
                {"type": "text", "text": "[file: https://example.com/a.csv]"},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {
            "role": "user",
            "content": [
                {
                    "type": "file",
                    "file": {"filename": "a.csv", "file_data": "data:text/csv;base64,YQ=="},
                }
            ],
        },
    ]


def test_anthropic_s_form() -> None:
    """System apart, a user first, results as blocks of the user, roles in turn."""
    messages = [
        ModelMessage("system", "Be brief."),
        ModelMessage("assistant", "Summary."),
        ModelMessage("assistant", "I look.", tool_calls=(ModelToolCall("c.1", "look", "x"),)),
        ModelMessage("tool", "found", tool_call_id="c.1"),
        ModelMessage("user", "thanks", (ModelFile(PNG), ModelFile("ftp://a/b.pdf"))),
    ]
    written = anthropic_messages(messages)

    assert written.system == "Be brief."
    assert written.messages == [
        {"role": "user", "content": [{"type": "text", "text": "[The conversation goes on.]"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Summary."},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c_1", "name": "look", "input": {"input": "x"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c_1", "content": "found"},
                {"type": "text", "text": "thanks"},
                {
                    "type": "image",
                    "source": {
                        "type": "base64",
                        "media_type": "image/png",
                        "data": "iVBORw0KGgo=",
                    },
                },
                {"type": "text", "text": "[file: ftp://a/b.pdf]"},
            ],
        },
    ]


@pytest.mark.parametrize(
    ("file", "block"),
    [
        (
            ModelFile("https://example.com/a", "application/pdf"),
            {"type": "document", "source": {"type": "url", "url": "https://example.com/a"}},
        ),
        (
            ModelFile("https://example.com/a.bin"),
            {"type": "text", "text": "[file: https://example.com/a.bin]"},
        ),
        (ModelFile("data:,x"), {"type": "text", "text": "[file: unnamed]"}),
    ],
)
def test_anthropic_s_files(file: ModelFile, block: dict[str, Any]) -> None:
    """What can be read is sent, the rest is told."""
    written = anthropic_messages([ModelMessage("user", files=(file,))])

    assert written.messages == [{"role": "user", "content": [block]}]


@given(histories() | histories(are_ids_reused=True), st.data())
def test_any_cut_history_is_assembled_soundly(history: History, data: st.DataObject) -> None:
    """Each call is followed by its one result, each result follows its call, for both providers."""
    kept = [each for each in history.messages if data.draw(st.booleans())]
    messages = assemble_model_messages(kept)

    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if message.role == "tool":
            assert message.tool_call_id == waiting.pop(0)
            continue
        assert waiting == []
        waiting = [call.call_id for call in message.tool_calls]
        assert not seen & set(waiting)
        seen |= set(waiting)
    assert waiting == []

    written = anthropic_messages(messages).messages
    assert all(one["role"] != two["role"] for one, two in pairwise(written))
    assert [each["role"] for each in openai_messages(messages)] == _roles(messages)
