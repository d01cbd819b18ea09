"""Models over real connections: what each answer of a provider becomes, with one request each."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter

from agent_runtime.errors import (
    ConfigurationError,
    ContextTooLongError,
    ModelAuthenticationError,
    ModelError,
    ModelRateLimitedError,
    ModelRefusedError,
    ModelRequestError,
    ModelResponseError,
    ModelTimeoutError,
    ModelUnavailableError,
    NotSerializableError,
)
from agent_runtime.json_value import to_json
from agent_runtime.llm import (
    ChatDelta,
    ChatImage,
    ChatMessage,
    ChatRequest,
    ChatResponse,
    ModelConfig,
    ToolCall,
    ToolDefinition,
    Usage,
    http_transport,
    open_model,
    usage_of,
)
from agent_runtime.llm.http_transport import HttpTransport
from agent_runtime.llm.model_config import Provider
from agent_runtime.testing import Answer, RawAnswer, Refusal, ScriptedModelServer, Silence
from agent_runtime.testing.model_script import ScriptStep
from tests.support.eventually import assert_eventually

PROVIDERS: tuple[Provider, ...] = ("openai", "anthropic")
USAGE = Usage(1_000, 30, cached_tokens=600, cache_write_tokens=50)
CALLS = (
    ToolCall("call-a", "look_up", {"name": "Zoë", "size": 3}),
    ToolCall("call-b", "stop"),
)
SECRET_PROMPT = "the prompt's own words"
KEY = "sk-very-secret"


@pytest.fixture
async def server() -> AsyncIterator[ScriptedModelServer]:
    """A provider with an empty script."""
    async with ScriptedModelServer() as running:
        yield running


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> Provider:
    """Each family of APIs in turn."""
    found: Provider = request.param
    return found


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def is_streamed(request: pytest.FixtureRequest) -> bool:
    """Each way of getting an answer in turn."""
    return bool(request.param)


REQUEST = ChatRequest((ChatMessage("user", SECRET_PROMPT),))


async def ask(
    config: ModelConfig,
    request: ChatRequest = REQUEST,
    *,
    is_streamed: bool = False,
    deadline: datetime | None = None,
    deltas: list[ChatDelta] | None = None,
) -> ChatResponse:
    """Ask a model of its own, once."""
    model = open_model(config)
    told = [] if deltas is None else deltas
    try:
        return await model.complete(
            request, deadline=deadline, on_progress=told.append if is_streamed else None
        )
    finally:
        await model.close()


async def error_of(config: ModelConfig, **options: Any) -> ModelError:
    """Ask and return the error."""
    with pytest.raises(ModelError) as caught:
        await ask(config, **options)
    error = caught.value
    # What led to an error travels with it into workflow history, and may quote keys.
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    return error


ANSWERS = [
    ChatResponse("Hello, \u2028 wörld 🎲.", usage=USAGE, model="scripted"),
    ChatResponse("Yes.", usage=USAGE, model="scripted", reasoning="Let me think of it."),
    ChatResponse("", CALLS, "tool_calls", USAGE, "scripted"),
    ChatResponse("Both.", CALLS, "tool_calls", USAGE, "scripted", "First, then."),
    ChatResponse("Half an ans", finish_reason="length", usage=USAGE, model="scripted"),
    ChatResponse("Half", finish_reason="content_filter", usage=USAGE, model="scripted"),
    ChatResponse("Odd", finish_reason="other", usage=USAGE, model="scripted"),
]


INLINE = ChatImage("data:image/png;base64,iVBO", "image/png")
LINKED = ChatImage("https://host/sky.png", "image/png")


@pytest.mark.parametrize(
    ("provider", "parts"),
    [
        (
            "openai",
            [
                {"type": "image_url", "image_url": {"url": INLINE.url}},
                {"type": "image_url", "image_url": {"url": LINKED.url}},
            ],
        ),
        (
            "anthropic",
            [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"},
                },
                {"type": "image", "source": {"type": "url", "url": LINKED.url}},
            ],
        ),
    ],
)
async def test_images_are_sent_to_models_that_look_at_them(
    server: ScriptedModelServer, provider: Provider, parts: list[Any]
) -> None:
    """Behind the text; a model that does not is sent the text alone."""
    request = ChatRequest((ChatMessage("user", "Look.", images=(INLINE, LINKED)),))
    blind = server.config(provider)
    server.play(ChatResponse("A sky."), ChatResponse("I see nothing."))

    await ask(blind.model_copy(update={"reads_images": True}), request)
    await ask(blind, request)

    seen, unseen = (sent.body["messages"][0]["content"] for sent in server.requests)
    assert seen == [{"type": "text", "text": "Look."}, *parts]
    assert unseen in ("Look.", [{"type": "text", "text": "Look."}])


async def test_a_tools_error_is_told_where_there_is_a_field_for_it(
    server: ScriptedModelServer,
) -> None:
    """Anthropic's results say whether they are errors."""
    said = ChatMessage("assistant", tool_calls=(ToolCall("c", "look"),))
    results = [ChatMessage("tool", "no", tool_call_id="c", is_error=each) for each in (True, False)]
    server.play(ChatResponse("a"), ChatResponse("b"))

    for result in results:
        await ask(server.config("anthropic"), ChatRequest((*REQUEST.messages, said, result)))

    blocks = [sent.body["messages"][-1]["content"][0] for sent in server.requests]
    assert [block.get("is_error") for block in blocks] == [True, None]


@pytest.mark.parametrize("response", ANSWERS, ids=lambda each: each.text[:8] or "calls")
async def test_an_answer_comes_as_it_was_given(
    server: ScriptedModelServer, provider: Provider, is_streamed: bool, response: ChatResponse
) -> None:
    """Text, tool calls, reasoning, usage and the reason of its end, with one request."""
    server.play(response)

    answer = await ask(server.config(provider), is_streamed=is_streamed)

    assert answer == response
    assert [bool(request.body.get("stream")) for request in server.requests] == [is_streamed]


async def test_what_is_told_on_the_way_is_the_answer(
    server: ScriptedModelServer, provider: Provider
) -> None:
    """The pieces of text and reasoning, put together, are what comes at the end."""
    server.play(
        ChatResponse("A longer answer in pieces.", CALLS, "tool_calls", USAGE, "", "Hm, so.")
    )
    deltas: list[ChatDelta] = []

    answer = await ask(server.config(provider), is_streamed=True, deltas=deltas)

    assert "".join(delta.text for delta in deltas) == answer.text
    assert "".join(delta.reasoning for delta in deltas) == answer.reasoning
    assert any(delta.is_tool_call for delta in deltas)
    assert any(delta == ChatDelta() for delta in deltas)


async def test_progress_may_be_awaited_and_ends_the_call(
    server: ScriptedModelServer, provider: Provider
) -> None:
    """What the callback raises comes through as it is, and the connection is given up."""
    server.play(Answer("one two three four", pause_seconds=0.01))

    async def stop(delta: ChatDelta) -> None:
        await asyncio.sleep(0)
        if delta.text:
            raise LookupError("enough")

    model = open_model(server.config(provider))
    with pytest.raises(LookupError, match="enough"):
        await model.complete(REQUEST, on_progress=stop)

    await assert_hung_up(server, 1)
    await model.close()


async def test_a_provider_that_does_not_stream_is_told_at_once(
    server: ScriptedModelServer,
) -> None:
    """An answer that comes whole although a stream was asked for is an answer."""
    body = b'{"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}]}'
    server.play(RawAnswer(body))
    deltas: list[ChatDelta] = []

    answer = await ask(server.config(), is_streamed=True, deltas=deltas)

    assert (answer.text, answer.usage, deltas) == ("whole", Usage(), [ChatDelta("whole")])


REFUSALS: list[tuple[ScriptStep, type[ModelError], bool]] = [
    (Refusal("rate_limited"), ModelRateLimitedError, True),
    (Refusal("out_of_order"), ModelUnavailableError, True),
    (Refusal("out_of_order", 502), ModelUnavailableError, True),
    (Refusal("overloaded"), ModelUnavailableError, True),
    (Refusal("overloaded", 408), ModelTimeoutError, True),
    (Refusal("overloaded", 409), ModelUnavailableError, True),
    (Refusal("overloaded", 425), ModelUnavailableError, True),
    (Refusal("wrong_key"), ModelAuthenticationError, False),
    (Refusal("wrong_key", 403), ModelAuthenticationError, False),
    (Refusal("context_too_long"), ContextTooLongError, False),
    (Refusal("context_too_long", 413), ContextTooLongError, False),
    (Refusal("context_too_long", 500), ContextTooLongError, False),
    (Refusal("invalid"), ModelRequestError, False),
    (Refusal("invalid", 404), ModelRequestError, False),
    (Refusal("invalid", 422), ModelRequestError, False),
    (Refusal("invalid", 301), ModelRequestError, False),
    (RawAnswer(b"<h1>413 Request Entity Too Large</h1>", 413), ContextTooLongError, False),
    (RawAnswer(b"<h1>Bad Gateway</h1>", 502, "text/html"), ModelUnavailableError, True),
    (Answer("one two three", lost_after=0), ModelUnavailableError, True),
    (Answer("one two three", lost_after=1), ModelUnavailableError, True),
    (RawAnswer(b'{"cho', is_lost=True), ModelUnavailableError, True),
    (RawAnswer(b'{"choices": ['), ModelResponseError, True),
    (RawAnswer(b"<p>Welcome to the proxy</p>", content_type="application/json"),
     ModelResponseError, True),
    (RawAnswer(b"[]"), ModelResponseError, True),
    (RawAnswer(b'{"ok": true}'), ModelResponseError, True),
    (RawAnswer(b'{"error": {"message": "x", "code": 429}}'), ModelRateLimitedError, True),
    (RawAnswer(b'{"error": {"message": "x", "type": "overloaded_error"}}'),
     ModelUnavailableError, True),
    (RawAnswer(b'{"error": {"message": "x", "type": "who_knows"}}'), ModelUnavailableError, True),
    (Answer("  \n"), ModelResponseError, True),
    (Answer(ChatResponse("", reasoning="Only thought.")), ModelResponseError, True),
    (Answer(ChatResponse("", finish_reason="length")), ModelResponseError, True),
    (Answer(ChatResponse("", finish_reason="content_filter")), ModelRefusedError, False),
]  # fmt: skip


@pytest.mark.parametrize(("step", "kind", "is_retryable"), REFUSALS)
async def test_each_trouble_has_its_type(
    server: ScriptedModelServer,
    provider: Provider,
    is_streamed: bool,
    step: ScriptStep,
    kind: type[ModelError],
    is_retryable: bool,
) -> None:
    """One request, one error; it says whether another try can help."""
    server.play(step, "never asked for")

    error = await error_of(server.config(provider), is_streamed=is_streamed)

    assert (type(error), error.non_retryable) == (kind, not is_retryable)
    assert len(server.requests) == 1


async def test_an_error_within_a_stream_is_its_type(
    server: ScriptedModelServer, provider: Provider
) -> None:
    """A provider that breaks down after it began says so in an event."""
    deltas: list[ChatDelta] = []
    server.play(Answer("one two three four", error_after=1))

    error = await error_of(server.config(provider), is_streamed=True, deltas=deltas)

    assert type(error) is ModelUnavailableError
    assert "".join(delta.text for delta in deltas) == "one two "
    assert len(server.requests) == 1


STREAMS: list[tuple[bytes, type[ModelError]]] = [
    (b"data: {broken\n\n", ModelResponseError),
    (b"data: \xff\xfe\n\n", ModelResponseError),
    (b"", ModelUnavailableError),
    (b": only signs of life\n\n", ModelUnavailableError),
    (b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', ModelUnavailableError),
    (b'data: {"error":{"code":429}}\n\n', ModelRateLimitedError),
    (b'data: {"choices":[{"error":{"code":502,"message":"x"}}]}\n\n', ModelUnavailableError),
    (b'data: {"error":{"code":"context_length_exceeded"}}\n\n', ContextTooLongError),
    (b"data: [DONE]\n\n", ModelResponseError),
    (b"data: 7\n\ndata: null\n\ndata: [DONE]\n\n", ModelResponseError),
]


@pytest.mark.parametrize(("stream", "kind"), STREAMS)
async def test_broken_streams_are_errors(
    server: ScriptedModelServer, stream: bytes, kind: type[ModelError]
) -> None:
    """A stream that breaks the rules, or ends before the answer does, is never an answer."""
    server.play(RawAnswer(stream, content_type="text/event-stream"))

    assert type(await error_of(server.config(), is_streamed=True)) is kind


ENDED: dict[Provider, bytes] = {
    "openai": b'data: {"choices":[{"delta":{"content":"whole"},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n",
    "anthropic": b'data: {"type":"content_block_delta","delta":{"text":"whole"}}\n\n'
    b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'
    b'data: {"type":"message_stop"}\n\n',
}


async def test_an_answer_that_has_ended_is_not_lost(
    server: ScriptedModelServer, provider: Provider
) -> None:
    """What happens to the connection after the last event is nobody's loss."""
    server.play(RawAnswer(ENDED[provider], content_type="text/event-stream", is_lost=True))

    assert (await ask(server.config(provider), is_streamed=True)).text == "whole"


async def test_an_answer_that_has_ended_is_not_waited_for(
    server: ScriptedModelServer, provider: Provider
) -> None:
    """A provider that leaves the stream open after its last event delays nobody."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n"
        writer.write(head.encode() + ENDED[provider])
        # The end of the connection, which only the client brings about.
        while await reader.read(65_536):
            pass
        writer.close()

    config = server.config(provider, idle_timeout_seconds=30.0)
    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        config = config.model_copy(update={"base_url": f"http://127.0.0.1:{port}"})
        started = time.monotonic()
        response = await ask(config, is_streamed=True)

    assert response.text == "whole"
    assert time.monotonic() - started < 25


async def test_an_endless_answer_is_refused(
    server: ScriptedModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider cannot fill the worker's memory."""
    monkeypatch.setattr(http_transport, "MAX_BODY_BYTES", 100)
    server.play("x" * 200)

    error = await error_of(server.config())

    assert (type(error), error.details_map["reason"]) == (ModelResponseError, "too_big")


async def test_a_blank_answer_tells_what_it_cost(
    server: ScriptedModelServer, provider: Provider, is_streamed: bool
) -> None:
    """Tokens were paid for, though nobody can use the answer."""
    server.play(ChatResponse("\n", usage=USAGE, reasoning="Thought only."))

    error = await error_of(server.config(provider), is_streamed=is_streamed)

    assert (usage_of(error), error.details_map["reason"]) == (USAGE, "reasoning_only")


async def test_arguments_that_are_no_object_are_an_error(server: ScriptedModelServer) -> None:
    """Arguments cut off by the token limit say so; others are malformed."""
    said: dict[str, Any] = {"id": "c", "function": {"name": "f", "arguments": '{"a": '}}
    for finish in ("length", "tool_calls"):
        choice = {"message": {"tool_calls": [said]}, "finish_reason": finish}
        body = {"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
        server.play(RawAnswer(to_json(body)))

    errors = [await error_of(server.config()) for _ in range(2)]

    reasons = [error.details_map["reason"] for error in errors]
    assert reasons == ["length", "malformed_arguments"]
    assert [usage_of(error) for error in errors] == [Usage(5, 2)] * 2


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After-Ms": "1500", "retry-after": "7"}, 1.5),
        (
            {
                "date": "Tue, 01 Jan 2030 00:00:00 GMT",
                "retry-after": "Tue, 01 Jan 2030 00:00:30 GMT",
            },
            30.0,
        ),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
async def test_temporal_waits_as_long_as_the_provider_asks(
    server: ScriptedModelServer, headers: dict[str, str], seconds: float | None
) -> None:
    """The wait is in the failure that Temporal gets, and in the details that callers get."""
    server.play(Refusal("rate_limited", headers=headers))

    error = await error_of(server.config())
    failure = Failure()
    await DataConverter.default.encode_failure(error, failure)

    info = failure.application_failure_info
    waits = info.next_retry_delay.ToTimedelta() if info.HasField("next_retry_delay") else None
    assert waits == (None if seconds is None else timedelta(seconds=seconds))
    assert error.details_map.get("retry_after_seconds") == seconds


QUOTING = to_json({"error": {"message": f"{SECRET_PROMPT} {KEY}", "code": KEY, "type": KEY}})


@pytest.mark.parametrize("status", [200, 302, 400, 401, 413, 429, 500])
async def test_errors_quote_neither_prompts_nor_keys(
    server: ScriptedModelServer,
    provider: Provider,
    is_streamed: bool,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What gets into workflow history says nothing that the provider said, nor the key."""
    monkeypatch.setenv("MY_KEY", KEY)
    server.play(RawAnswer(QUOTING, status, headers={"request-id": SECRET_PROMPT, "x-other": KEY}))

    error = await error_of(server.config(provider, api_key_env="MY_KEY"), is_streamed=is_streamed)
    failure = Failure()
    await DataConverter.default.encode_failure(error, failure)
    told = "".join(traceback.format_exception(error)) + str(failure) + str(error.to_record())

    assert KEY not in told
    assert SECRET_PROMPT not in told
    assert not failure.HasField("cause")


async def test_a_refused_key_names_its_variable(
    server: ScriptedModelServer, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever runs the worker learns where to look, with the provider's own name of the request."""
    monkeypatch.setenv("MY_KEY", KEY)
    server.play(Refusal("wrong_key", headers={"request-id": "req-17"}))

    error = await error_of(server.config(provider, api_key_env="MY_KEY"))

    assert "MY_KEY" in error.message
    assert error.details_map["request_id"] == "req-17"


async def test_the_log_has_what_the_provider_said_without_keys(
    server: ScriptedModelServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At level debug, for those who must find out why a request is refused."""
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("MY_TOKEN", "tok-secret")
    said = f"unsupported value; your key is {KEY}, your token tok-secret".encode()
    server.play(RawAnswer(said, 400, "text/plain"))
    caplog.set_level(logging.DEBUG, "agent_runtime.llm")

    await error_of(
        server.config(api_key_env="MY_KEY", extra_headers_env={"x-gateway-token": "MY_TOKEN"})
    )

    assert "unsupported value; your key is ***, your token ***" in caplog.text


async def test_keys_go_where_the_api_wants_them(
    server: ScriptedModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read from the variable at each call, so that it can be exchanged."""
    server.play("a", "b", "c")
    calls: list[tuple[Provider, str]] = [
        ("openai", "first"),
        ("openai", "second"),
        ("anthropic", "third\n"),
    ]
    for provider, key in calls:
        monkeypatch.setenv("MY_KEY", key)
        await ask(server.config(provider, api_key_env="MY_KEY"))

    headers = [request.headers for request in server.requests]
    assert [each.get("authorization") for each in headers] == [
        "Bearer first",
        "Bearer second",
        None,
    ]
    assert [each.get("x-api-key") for each in headers] == [None, None, "third"]
    assert headers[2]["anthropic-version"] == "2023-06-01"


async def test_a_missing_key_asks_nobody(
    server: ScriptedModelServer, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the variable, and no request is sent."""
    monkeypatch.delenv("MY_KEY", raising=False)

    error = await error_of(server.config(provider, api_key_env="MY_KEY"))

    assert (type(error), error.details_map["variable"]) == (ModelAuthenticationError, "MY_KEY")
    assert server.requests == []


async def test_a_key_with_strange_characters_asks_nobody(
    server: ScriptedModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a header is impossible; the error does not show the key."""
    monkeypatch.setenv("MY_KEY", "sk-with\nnewline")

    with pytest.raises(ConfigurationError, match="MY_KEY") as caught:
        await ask(server.config(api_key_env="MY_KEY"))

    assert "newline" not in str(caught.value)
    assert server.requests == []


async def test_extra_headers_and_fields_are_sent(
    server: ScriptedModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fields replace ours, and None takes one of ours out."""
    monkeypatch.setenv("MY_TOKEN", "tok")
    server.play("a")
    config = server.config(
        extra_headers={"X-Team": "blue"},
        extra_headers_env={"X-Gateway": "MY_TOKEN"},
        extra_body={"max_tokens": None, "max_completion_tokens": 9, "reasoning_effort": "low"},
    )

    await ask(config)

    [request] = server.requests
    assert (request.headers["x-team"], request.headers["x-gateway"]) == ("blue", "tok")
    assert set(request.body) == {"model", "messages", "max_completion_tokens", "reasoning_effort"}


async def test_a_request_that_is_no_text_asks_nobody(
    server: ScriptedModelServer, provider: Provider
) -> None:
    """A lone surrogate cannot be written as UTF-8."""
    request = ChatRequest((ChatMessage("user", "bad \ud800 text"),))

    with pytest.raises(NotSerializableError, match="the request to the model"):
        await ask(server.config(provider), request)

    assert server.requests == []


async def test_cancelling_hangs_up(
    server: ScriptedModelServer, provider: Provider, is_streamed: bool
) -> None:
    """The provider sees the connection closed, and can stop writing."""
    server.play(Answer("one two three", pause_seconds=30) if is_streamed else Silence())
    model = open_model(server.config(provider))
    on_progress = (lambda delta: None) if is_streamed else None
    asking = asyncio.create_task(model.complete(REQUEST, on_progress=on_progress))
    await assert_asked(server, 1)

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    await assert_hung_up(server, 1)
    await model.close()


async def test_the_deadline_ends_the_call_before_it_passes(
    server: ScriptedModelServer, provider: Provider, is_streamed: bool
) -> None:
    """The caller still has time to say so: the call ends by the margin earlier, and hangs up."""
    server.play(Answer("many words " * 100, pause_seconds=0.02) if is_streamed else Silence())
    deadline = datetime.now(UTC) + timedelta(seconds=32)

    config = server.config(provider, deadline_margin_seconds=30.0)
    error = await error_of(config, is_streamed=is_streamed, deadline=deadline)

    assert (type(error), error.details_map["reason"]) == (ModelTimeoutError, "deadline")
    assert datetime.now(UTC) < deadline
    assert len(server.requests) == 1
    await assert_hung_up(server, 1)


async def test_a_deadline_too_near_asks_nobody(
    server: ScriptedModelServer, provider: Provider
) -> None:
    """An answer that would come too late is not paid for."""
    error = await error_of(
        server.config(provider, deadline_margin_seconds=5),
        deadline=datetime.now(UTC) + timedelta(seconds=4),
    )

    assert (type(error), error.details_map["reason"]) == (ModelTimeoutError, "deadline")
    assert server.requests == []


async def test_a_deadline_without_a_time_zone_is_refused(server: ScriptedModelServer) -> None:
    """It could be hours off."""
    with pytest.raises(ConfigurationError, match="time zone"):
        await ask(server.config(), deadline=datetime.now())


async def test_a_stream_that_falls_silent_is_given_up(
    server: ScriptedModelServer, provider: Provider
) -> None:
    """Long before the whole call may end."""
    server.play(Answer("one two three", pause_seconds=30))

    error = await error_of(server.config(provider, idle_timeout_seconds=0.2), is_streamed=True)

    assert (type(error), error.details_map["reason"]) == (ModelTimeoutError, "idle")


async def test_a_whole_answer_may_be_slow(server: ScriptedModelServer) -> None:
    """Silence says nothing where an answer comes whole."""
    server.play(Answer("slow", pause_seconds=0.3))

    answer = await ask(server.config(idle_timeout_seconds=0.05))

    assert answer.text == "slow"


async def test_a_provider_that_is_not_there_is_unavailable(server: ScriptedModelServer) -> None:
    """Nothing listens at the address any more."""
    async with ScriptedModelServer() as gone:
        config = gone.config()

    error = await error_of(config)

    assert (type(error), error.details_map["reason"]) == (ModelUnavailableError, "connect")


async def test_connections_serve_again(
    server: ScriptedModelServer, provider: Provider, is_streamed: bool
) -> None:
    """Answers read to their end leave the connection usable; refused requests too."""
    server.play("one", "two", Refusal("rate_limited"), "three")
    model = open_model(server.config(provider))
    on_progress = (lambda delta: None) if is_streamed else None

    for _ in range(2):
        await model.complete(REQUEST, on_progress=on_progress)
    with pytest.raises(ModelRateLimitedError):
        await model.complete(REQUEST, on_progress=on_progress)
    await model.complete(REQUEST, on_progress=on_progress)
    await model.close()
    await model.close()

    assert server.connection_count == 1


async def test_models_share_a_transport(server: ScriptedModelServer) -> None:
    """Closing one leaves the connections to the others."""
    server.play("one", "two")
    transport = HttpTransport()
    first = open_model(server.config(), transport=transport)
    second = open_model(server.config("anthropic"), transport=transport)

    await first.complete(REQUEST)
    await first.close()
    await second.complete(REQUEST)
    await transport.close()

    assert server.connection_count == 1


async def test_many_calls_run_at_the_same_time(server: ScriptedModelServer) -> None:
    """Each has a connection; none waits for another, and none gets another's answer."""
    count = 60
    server.play(*(Answer(f"answer {number}", pause_seconds=0.005) for number in range(count)))
    model = open_model(server.config())

    answers = await asyncio.gather(
        *(model.complete(REQUEST, on_progress=lambda delta: None) for _ in range(count))
    )
    await model.close()

    assert {answer.text for answer in answers} == {f"answer {number}" for number in range(count)}


def test_a_model_serves_several_loops() -> None:
    """Connections belong to a loop; the next loop opens its own."""
    shared: list[HttpTransport] = []

    async def once() -> str:
        async with ScriptedModelServer("here") as server:
            transport = shared[0] if shared else HttpTransport()
            shared.append(transport)
            answer = await open_model(server.config(), transport=transport).complete(REQUEST)
            await transport.close()
            return answer.text

    assert [asyncio.run(once()), asyncio.run(once())] == ["here", "here"]


async def test_tools_are_offered_and_results_told(
    server: ScriptedModelServer, provider: Provider
) -> None:
    """A turn with tools goes to the provider in its own form."""
    server.play("done")
    request = ChatRequest(
        (
            ChatMessage("system", "Be brief."),
            ChatMessage("user", "Look it up."),
            ChatMessage("assistant", "", CALLS),
            ChatMessage("tool", "found", tool_call_id="call-a"),
            ChatMessage("tool", "stopped", tool_call_id="call-b"),
        ),
        tools=(ToolDefinition("look_up", "Looks up a name.", {"type": "object"}),),
        max_tokens=77,
        temperature=0.0,
        stop=("END",),
    )

    await ask(server.config(provider), request)

    assert server.requests[0].body == TOOL_BODIES[provider]


TOOL_BODIES: dict[Provider, Any] = {
    "openai": {
        "model": "scripted",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Look it up."},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call-a",
                        "type": "function",
                        "function": {"name": "look_up", "arguments": '{"name":"Zoë","size":3}'},
                    },
                    {
                        "id": "call-b",
                        "type": "function",
                        "function": {"name": "stop", "arguments": "{}"},
                    },
                ],
            },
            {"role": "tool", "content": "found", "tool_call_id": "call-a"},
            {"role": "tool", "content": "stopped", "tool_call_id": "call-b"},
        ],
        "max_tokens": 77,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look_up",
                    "description": "Looks up a name.",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
        "temperature": 0.0,
        "stop": ["END"],
    },
    "anthropic": {
        "model": "scripted",
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Look it up."}]},
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "tool_use",
                        "id": "call-a",
                        "name": "look_up",
                        "input": {"name": "Zoë", "size": 3},
                    },
                    {"type": "tool_use", "id": "call-b", "name": "stop", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call-a", "content": "found"},
                    {"type": "tool_result", "tool_use_id": "call-b", "content": "stopped"},
                ],
            },
        ],
        "max_tokens": 77,
        "tools": [
            {
                "name": "look_up",
                "description": "Looks up a name.",
                "input_schema": {"type": "object"},
            }
        ],
        "temperature": 0.0,
        "stop_sequences": ["END"],
    },
}


async def assert_asked(server: ScriptedModelServer, count: int) -> None:
    """Wait until so many requests have come."""

    async def asked() -> None:
        assert len(server.requests) == count

    await assert_eventually(asked)


async def assert_hung_up(server: ScriptedModelServer, count: int) -> None:
    """Wait until the server has noticed so many clients that gave up."""

    async def hung_up() -> None:
        assert server.hang_up_count == count

    await assert_eventually(hung_up)
