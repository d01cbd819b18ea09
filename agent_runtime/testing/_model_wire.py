"""How the two families of APIs write answers, streams and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from agent_runtime.json_value import Json, pack, to_json
from agent_runtime.llm.chat_model import ChatResponse, FinishReason
from agent_runtime.testing.model_script import Answer, Refusal, RefusalKind

Family = Literal["openai", "anthropic"]

_OPENAI_FINISH: dict[FinishReason, str] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "other": "something_new",
}
_ANTHROPIC_FINISH: dict[FinishReason, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "other": "pause_turn",
}
_REFUSALS: dict[RefusalKind, tuple[int, str, str, str]] = {
    "rate_limited": (429, "rate_limit_exceeded", "rate_limit_error", "Slow down."),
    "out_of_order": (500, "server_error", "api_error", "Internal server error"),
    "overloaded": (529, "server_error", "overloaded_error", "Overloaded"),
    "context_too_long": (
        400,
        "context_length_exceeded",
        "invalid_request_error",
        "prompt is too long: 210000 tokens > 200000 maximum",
    ),
    "wrong_key": (401, "invalid_api_key", "authentication_error", "Incorrect API key provided."),
    "invalid": (400, "unsupported_value", "invalid_request_error", "Unsupported value."),
}


def refusal_of(family: Family, refusal: Refusal) -> tuple[int, Json]:
    """Return status and body of a refusal."""
    status, openai_code, anthropic_type, message = _REFUSALS[refusal.kind]
    if family == "anthropic":
        error: Json = {"type": "error", "error": {"type": anthropic_type, "message": message}}
    else:
        error = {"error": {"message": message, "type": "error", "code": openai_code}}
    return refusal.status or status, error


def body_of(family: Family, model: str, response: ChatResponse) -> Json:
    """Return a whole answer."""
    return (_anthropic_body if family == "anthropic" else _openai_body)(model, response)


def events_of(family: Family, model: str, answer: Answer) -> Iterator[bytes | None]:
    """Yield the events of a streamed answer, and None where the connection is to be lost."""
    response = answer.whole()
    write = _anthropic_events if family == "anthropic" else _openai_events
    before, after = write(model, response)
    yield from before
    size = answer.piece_chars
    pieces = [response.text[at : at + size] for at in range(0, len(response.text), size)]
    for number, piece in enumerate([*pieces, None]):
        if answer.lost_after is not None and number >= answer.lost_after:
            yield None
            return
        if answer.error_after is not None and number >= answer.error_after:
            yield _error_event(family)
            return
        if piece is not None:
            yield _text_event(family, model, response, piece)
    yield from after


def _error_event(family: Family) -> bytes:
    _, error = refusal_of(family, Refusal("overloaded"))
    return _event(error, "error" if family == "anthropic" else "")


def _text_event(family: Family, model: str, response: ChatResponse, piece: str) -> bytes:
    if family == "anthropic":
        return _block_delta(_text_index(response), {"type": "text_delta", "text": piece})
    return _chunk(model, {"content": piece})


def _event(data: Json, name: str = "") -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + pack(data) + b"\n\n"


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _openai_usage(response: ChatResponse) -> Json:
    usage = response.usage
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
    }


def _openai_body(model: str, response: ChatResponse) -> Json:
    message: dict[str, Json] = {"role": "assistant", "content": response.text or None}
    if response.reasoning:
        message["reasoning_content"] = response.reasoning
    if response.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": to_json(dict(call.arguments)).decode(),
                },
            }
            for call in response.tool_calls
        ]
    finish = _OPENAI_FINISH[response.finish_reason]
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": _openai_usage(response),
    }


def _chunk(model: str, delta: Json, finish: str | None = None, **fields: Json) -> bytes:
    return _event(
        {
            "id": "chatcmpl-scripted",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            **fields,
        }
    )


def _openai_events(model: str, response: ChatResponse) -> tuple[list[bytes], list[bytes]]:
    before = [b": waiting\n\n", _chunk(model, {"role": "assistant", "content": ""})]
    if response.reasoning:
        before += [
            _chunk(model, {"reasoning_content": each}) for each in _halves(response.reasoning)
        ]
    after = []
    for index, call in enumerate(response.tool_calls):
        first, second = _halves(to_json(dict(call.arguments)).decode())
        start = {"name": call.name, "arguments": first}
        after += [
            _chunk(model, {"tool_calls": [piece]})
            for piece in (
                {"index": index, "id": call.call_id, "type": "function", "function": start},
                {"index": index, "function": {"arguments": second}},
            )
        ]
    after += [
        _chunk(model, {}, _OPENAI_FINISH[response.finish_reason]),
        _chunk(model, {}, choices=[], usage=_openai_usage(response)),
        b"data: [DONE]\n\n",
    ]
    return before, after


def _anthropic_usage(response: ChatResponse) -> Json:
    usage = response.usage
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
    }


def _anthropic_body(model: str, response: ChatResponse) -> Json:
    content: list[Json] = []
    content += _thinking_blocks(response)
    if response.text:
        content.append({"type": "text", "text": response.text})
    content += [
        {"type": "tool_use", "id": call.call_id, "name": call.name, "input": dict(call.arguments)}
        for call in response.tool_calls
    ]
    return {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": _ANTHROPIC_FINISH[response.finish_reason],
        "usage": _anthropic_usage(response),
    }


def _named(kind: str, **fields: Json) -> bytes:
    return _event({"type": kind, **fields}, kind)


def _block_start(index: int, block: Json) -> bytes:
    return _named("content_block_start", index=index, content_block=block)


def _block_delta(index: int, delta: Json) -> bytes:
    return _named("content_block_delta", index=index, delta=delta)


def _thinking_blocks(response: ChatResponse) -> list[Json]:
    if not response.signed_reasoning:
        return [{"type": "thinking", "thinking": response.reasoning}] if response.reasoning else []
    return [
        {"type": "redacted_thinking", "data": each.hidden}
        if each.hidden
        else {"type": "thinking", "thinking": each.text, "signature": each.signature}
        for each in response.signed_reasoning
    ]


def _thinking_events(index: int, block: Json) -> list[bytes]:
    if "thinking" not in block:
        return [_block_start(index, block), _named("content_block_stop", index=index)]
    deltas = [{"type": "thinking_delta", "thinking": each} for each in _halves(block["thinking"])]
    if "signature" in block:
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    begun = {"type": "thinking", "thinking": "", "signature": ""}
    return [
        _block_start(index, begun),
        *(_block_delta(index, each) for each in deltas),
        _named("content_block_stop", index=index),
    ]


def _text_index(response: ChatResponse) -> int:
    return len(_thinking_blocks(response))


def _anthropic_events(model: str, response: ChatResponse) -> tuple[list[bytes], list[bytes]]:
    whole = _anthropic_body(model, response)
    begun = {**whole, "content": [], "stop_reason": None}
    begun["usage"] = {**whole["usage"], "output_tokens": 1}
    before = [_named("message_start", message=begun), _named("ping")]
    for at, block in enumerate(_thinking_blocks(response)):
        before += _thinking_events(at, block)
    after: list[bytes] = []
    index = _text_index(response)
    if response.text:
        before.append(_block_start(index, {"type": "text", "text": ""}))
        after.append(_named("content_block_stop", index=index))
        index += 1
    for place, call in enumerate(response.tool_calls, index):
        block = {"type": "tool_use", "id": call.call_id, "name": call.name, "input": {}}
        after.append(_block_start(place, block))
        after += [
            _block_delta(place, {"type": "input_json_delta", "partial_json": each})
            for each in _halves(to_json(dict(call.arguments)).decode())
        ]
        after.append(_named("content_block_stop", index=place))
    after += [
        _named(
            "message_delta",
            delta={"stop_reason": whole["stop_reason"], "stop_sequence": None},
            usage={"output_tokens": response.usage.output_tokens},
        ),
        _named("message_stop"),
    ]
    return before, after
