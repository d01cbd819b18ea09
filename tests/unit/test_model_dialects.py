"""The two families of APIs: odd answers of real servers, and histories that were cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.errors import (
    ModelError,
    ModelRateLimitedError,
    ModelRequestError,
    ModelResponseError,
    ModelUnavailableError,
)
from agent_runtime.json_value import Json, to_json
from agent_runtime.llm import ChatMessage, ChatRequest, ChatResponse, ModelConfig, ToolCall, Usage
from agent_runtime.llm.anthropic import Anthropic
from agent_runtime.llm.openai_compatible import OpenAICompatible
from tests.support.json_values import json_values

OPENAI = OpenAICompatible(ModelConfig(model="m"))
ANTHROPIC = Anthropic(ModelConfig(model="m", provider="anthropic"))


def openai_answer(*deltas: Json, finish: str = "stop") -> ChatResponse:
    """Put a stream of deltas together."""
    answer = OPENAI.streamed()
    for delta in deltas:
        answer.feed(to_json({"choices": [{"delta": delta}]}).decode())
    answer.feed(to_json({"choices": [{"delta": {}, "finish_reason": finish}]}).decode())
    response = answer.finish()
    assert response is not None
    return response


def call(name: str | None = None, arguments: Json = "", **fields: Json) -> Json:
    """Return a delta with a piece of a tool call."""
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return {"tool_calls": [{"function": function, **fields}]}


TOOL_STREAMS: list[tuple[list[Json], list[tuple[str, str, Json]]]] = [
    (
        [call("f", '{"a"', index=0, id="x"), call(None, ":1}", index=0)],
        [("x", "f", {"a": 1})],
    ),
    (
        [call("f", "{}", index=0, id="x"), call("g", '{"b":2}', index=0, id="y")],
        [("x", "f", {}), ("y", "g", {"b": 2})],
    ),
    (
        [call("f", '{"a"', index=0, id="x"), call("f", ":1}", index=0, id="x")],
        [("x", "f", {"a": 1})],
    ),
    (
        [call("f", "", index=0, id="x"), call("g", "", index=1, id="y"),
         call(None, '{"b":2}', index=1), call(None, '{"a":1}', index=0)],
        [("x", "f", {"a": 1}), ("y", "g", {"b": 2})],
    ),
    ([call("f", {"a": 1})], [("call_0", "f", {"a": 1})]),
    ([call("f", '{"a"'), call(None, ":1}")], [("call_0", "f", {"a": 1})]),
    ([call("f", "{}"), call("g", "{}")], [("call_0", "f", {}), ("call_1", "g", {})]),
    ([call("f", None, index=0, id="x")], [("x", "f", {})]),
    (
        [call("f", '{"a":1}', index=0), call("g", "", index=0), call(None, '{"b":2}', index=0)],
        [("call_0", "f", {"a": 1}), ("call_1", "g", {"b": 2})],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("deltas", "calls"), TOOL_STREAMS)
def test_tool_calls_are_put_together(
    deltas: list[Json], calls: list[tuple[str, str, Json]]
) -> None:
    """Servers number and name the pieces in their own ways."""
    response = openai_answer(*deltas)

    found = [(each.call_id, each.name, each.arguments) for each in response.tool_calls]
    assert (found, response.finish_reason) == (calls, "tool_calls")


@pytest.mark.parametrize(
    "arguments", ["[1]", "7", '{"a":', '{"a": NaN}', '{"a":' * 150 + "1" + "}" * 150]
)
def test_arguments_that_cannot_be_kept_are_refused(arguments: str) -> None:
    """No object, no JSON, or nested too deeply; given as an object it is the same."""
    with pytest.raises(ModelResponseError, match="no JSON object"):
        openai_answer(call("f", arguments, index=0, id="x"))
    block = {"type": "tool_use", "id": "x", "name": "f", "input": _deep(150)}
    with pytest.raises(ModelResponseError, match="no JSON object"):
        ANTHROPIC.read({"content": [block], "stop_reason": "tool_use"})


def test_a_call_without_a_name_is_refused() -> None:
    """Nobody could run it."""
    with pytest.raises(ModelResponseError):
        openai_answer(call(None, "{}", index=0, id="x"))


def _deep(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("deltas", "text", "reasoning"),
    [
        ([{"reasoning_content": "why"}, {"content": "so"}], "so", "why"),
        ([{"reasoning": "why"}, {"content": "so"}], "so", "why"),
        ([{"content": "<th"}, {"content": "ink>why</think>\n"}, {"content": "\nso"}], "so", "why"),
        (
            [{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "why"}]}]},
             {"content": [{"type": "text", "text": "so"}]}],
            "so", "why",
        ),
        ([{"content": None, "reasoning_content": None}, {"content": "so"}], "so", ""),
    ],
)  # fmt: skip
def test_reasoning_is_kept_apart(deltas: list[Json], text: str, reasoning: str) -> None:
    """Whatever its name, and wherever it stands."""
    response = openai_answer(*deltas)

    assert (response.text, response.reasoning) == (text, reasoning)


@pytest.mark.parametrize(
    ("chunk", "kind"),
    [
        ({"object": "error", "message": "no", "type": "BadRequestError", "code": 400},
         ModelRequestError),
        ({"message": "Overloaded", "type": "server_error"}, ModelUnavailableError),
        ({"detail": "Internal Server Error"}, ModelUnavailableError),
        ({"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, ModelRateLimitedError),
    ],
)  # fmt: skip
def test_an_error_in_any_form_ends_the_answer(chunk: Json, kind: type[ModelError]) -> None:
    """What had arrived before must not pass for a whole answer, though the stream ends in order."""
    answer = OPENAI.streamed()
    answer.feed('{"choices": [{"delta": {"content": "Half of"}}]}')

    with pytest.raises(kind):
        answer.feed(to_json(chunk).decode())
    with pytest.raises(kind):
        OPENAI.read(chunk)


def test_a_refusal_is_a_withheld_answer() -> None:
    """A model that declines says so in a field of its own."""
    response = openai_answer({"refusal": "I cannot do that."})

    assert (response.text, response.finish_reason) == ("", "content_filter")


def test_openai_itself_has_its_own_name_for_the_limit() -> None:
    """Its newer models refuse the name that all others know."""
    other = OpenAICompatible(ModelConfig(model="m", base_url="http://localhost/v1"))
    request = ChatRequest((ChatMessage("user", "hi"),))

    own, others = (each.body(request, is_streamed=False) for each in (OPENAI, other))

    assert set(own) - set(others) == {"max_completion_tokens"}
    assert set(others) - set(own) == {"max_tokens"}


@pytest.mark.parametrize(
    ("base_url", "path"),
    [(None, "/v1/messages"), ("http://x", "/v1/messages"), ("http://x/v1", "/messages")],
)
def test_both_ways_of_writing_the_address_lead_there(base_url: str | None, path: str) -> None:
    """With the API's version or without."""
    config = ModelConfig(model="m", provider="anthropic", base_url=base_url)

    assert Anthropic(config).path == path


def test_cached_input_is_part_of_the_input() -> None:
    """The Messages API counts it apart; ours are the same for both families."""
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 1_000,
        "output_tokens": 5,
    }
    message = {"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"}

    response = ANTHROPIC.read({**message, "usage": usage})

    assert response.usage == Usage(1_110, 5, cached_tokens=100, cache_write_tokens=1_000)


def test_a_history_that_begins_with_the_assistant_is_opened() -> None:
    """A compacted history does; the Messages API wants the user first."""
    messages = anthropic_messages(ChatMessage("assistant", "Summary."), ChatMessage("user", "Go."))

    assert [message["role"] for message in messages] == ["user", "assistant", "user"]


def test_blank_texts_are_left_out() -> None:
    """The Messages API refuses them, and with them the whole request."""
    messages = anthropic_messages(
        ChatMessage("user", "one"), ChatMessage("assistant", " \n"), ChatMessage("user", "two")
    )

    texts = [block["text"] for block in messages[0]["content"]]
    assert (len(messages), texts) == (1, ["one", "two"])


def anthropic_messages(*messages: ChatMessage) -> list[Any]:
    """Return messages as they go to the Messages API."""
    written: list[Any] = ANTHROPIC.body(ChatRequest(messages), is_streamed=False)["messages"]
    return written


MESSAGES = st.lists(
    st.one_of(
        st.builds(ChatMessage, st.sampled_from(["system", "user"]), st.text(max_size=3)),
        st.builds(
            ChatMessage,
            st.just("assistant"),
            st.text(max_size=3),
            st.lists(st.builds(ToolCall, st.just("c"), st.just("f")), max_size=2).map(tuple),
        ),
        st.builds(ChatMessage, st.just("tool"), st.text(max_size=3), st.just(()), st.just("c")),
    ),
    max_size=8,
)


@given(history=MESSAGES)
def test_any_history_has_the_form_that_the_messages_api_wants(history: list[ChatMessage]) -> None:
    """The user begins, roles alternate, nothing is empty, and nothing with content is lost."""
    messages = anthropic_messages(*history)

    roles = [message["role"] for message in messages]
    assert roles == [("user", "assistant")[number % 2] for number in range(len(roles))]
    blocks = [block for message in messages for block in message["content"]]
    assert all(message["content"] for message in messages)
    assert all(block["text"].strip() for block in blocks if block["type"] == "text")
    assert sum(block["type"] == "tool_use" for block in blocks) == sum(
        len(message.tool_calls) for message in history
    )


@given(body=json_values)
def test_no_body_breaks_a_dialect(body: Json) -> None:
    """Whatever a stranger answers is a response or an error of ours."""
    chunk = to_json({"choices": [{"delta": body, "message": body}], "usage": body}).decode()
    block = to_json({"type": "content_block_start", "content_block": body, "index": body}).decode()
    for dialect in (OPENAI, ANTHROPIC):
        for text in (to_json(body).decode(), chunk, block):
            answer = dialect.streamed()
            try:
                answer.feed(text)
                answer.finish()
                dialect.read(body)
            except ModelError:
                pass
