"""The Messages API of Anthropic."""

from __future__ import annotations

from collections.abc import Mapping

from agent_runtime.errors import ModelResponseError
from agent_runtime.json_value import Json
from agent_runtime.llm.chat_model import (
    ChatDelta,
    ChatMessage,
    ChatRequest,
    ChatResponse,
    FinishReason,
    SignedReasoning,
    Usage,
)
from agent_runtime.llm.dialect import read_json
from agent_runtime.llm.image_parts import anthropic_image
from agent_runtime.llm.json_fields import count_in, object_in, objects_in, text_in
from agent_runtime.llm.model_config import ModelConfig
from agent_runtime.llm.provider_errors import error_of_body
from agent_runtime.llm.tool_call_parts import ToolCallParts, tool_calls

VERSION = "2023-06-01"

_FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_OPENING = "(The conversation goes on.)"


class Anthropic:
    """The dialect of the Messages API."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        thinking = config.extra_body.get("thinking")
        self._is_thinking = isinstance(thinking, Mapping) and thinking.get("type") != "disabled"
        # Both ways of writing the address are common.
        self.path = "/messages" if config.url.endswith("/v1") else "/v1/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the API's version, and the key if there is one."""
        return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}

    def body(self, request: ChatRequest, *, is_streamed: bool) -> dict[str, Json]:
        """Return the request: system texts apart, neighbours of one role as one message."""
        body: dict[str, Json] = {
            "model": self._config.model,
            "messages": _messages(
                request.messages,
                is_thinking=self._is_thinking,
                sends_images=self._config.reads_images,
            ),
            "max_tokens": request.max_tokens or self._config.max_output_tokens,
        }
        system = [message.text for message in request.messages if message.role == "system"]
        if any(text.strip() for text in system):
            body["system"] = "\n\n".join(system)
        if request.tools:
            body["tools"] = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": dict(tool.parameters),
                }
                for tool in request.tools
            ]
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.stop:
            body["stop_sequences"] = list(request.stop)
        if is_streamed:
            body["stream"] = True
        return body

    def read(self, body: Json) -> ChatResponse:
        """Return the answer of a whole body."""
        answer = self.streamed()
        answer.take_message(body)
        response = answer.finish()
        if response is None:
            raise ModelResponseError(
                f"the provider of model {self._config.model} answered JSON that is no message; "
                "check base_url",
                reason="malformed",
            )
        return response

    def streamed(self) -> AnthropicAnswer:
        """Return an answer still to come."""
        return AnthropicAnswer(self._config.model)


class AnthropicAnswer:
    """A message that is put together from the events of a stream."""

    def __init__(self, model: str) -> None:
        self.has_ended = False
        self._model = model
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, ToolCallParts] = {}
        self._thoughts: dict[int, SignedReasoning] = {}
        self._finish: FinishReason | None = None
        self._usage: dict[str, int] = {}

    def feed(self, data: str) -> ChatDelta:
        """Take an event."""
        event = read_json(data)
        kind = text_in(event, "type")
        if kind == "message_start":
            return self.take_message(object_in(event, "message"))
        if kind == "content_block_start":
            return self._start(_index(event), object_in(event, "content_block"))
        if kind == "content_block_delta":
            return self._continue(_index(event), object_in(event, "delta"))
        if kind == "message_delta":
            self._end(object_in(event, "delta"), object_in(event, "usage"))
        elif kind == "message_stop":
            self.has_ended = True
        elif kind == "error":
            raise error_of_body(self._model, event)
        return ChatDelta()

    def take_message(self, message: Json) -> ChatDelta:
        """Take a message, whole or just begun."""
        if text_in(message, "type") == "error" or object_in(message, "error"):
            raise error_of_body(self._model, message)
        self._model = text_in(message, "model") or self._model
        for index, block in enumerate(objects_in(message, "content")):
            self._start(index, block)
        self._end(message, object_in(message, "usage"))
        return ChatDelta()

    def finish(self) -> ChatResponse | None:
        """Return the answer, or None if it never ended."""
        finish = self._finish
        if finish is None:
            return None
        usage = self._total_usage()
        return ChatResponse(
            text="".join(self._text),
            tool_calls=tool_calls(self._calls.values(), finish, usage),
            finish_reason=finish,
            usage=usage,
            model=self._model,
            reasoning="".join(self._reasoning),
            signed_reasoning=tuple(
                each for each in self._thoughts.values() if each.signature or each.hidden
            ),
        )

    def _start(self, index: int, block: dict[str, Json]) -> ChatDelta:
        kind = text_in(block, "type")
        if kind == "tool_use":
            # A stream begins with an empty object and tells the arguments afterwards.
            self._calls[index] = ToolCallParts(
                text_in(block, "id"), text_in(block, "name"), given=object_in(block, "input")
            )
            return ChatDelta(is_tool_call=True)
        if kind in ("thinking", "redacted_thinking"):
            self._thoughts[index] = SignedReasoning(
                text_in(block, "thinking"), text_in(block, "signature"), text_in(block, "data")
            )
        return self._say(text_in(block, "text"), text_in(block, "thinking"))

    def _continue(self, index: int, delta: dict[str, Json]) -> ChatDelta:
        call = self._calls.get(index)
        if call is not None and text_in(delta, "type") == "input_json_delta":
            call.arguments += text_in(delta, "partial_json")
            return ChatDelta(is_tool_call=True)
        thought = self._thoughts.get(index)
        if thought is not None:
            self._thoughts[index] = SignedReasoning(
                thought.text + text_in(delta, "thinking"),
                thought.signature + text_in(delta, "signature"),
                thought.hidden,
            )
        return self._say(text_in(delta, "text"), text_in(delta, "thinking"))

    def _say(self, text: str, reasoning: str) -> ChatDelta:
        self._text.append(text)
        self._reasoning.append(reasoning)
        return ChatDelta(text, reasoning)

    def _end(self, delta: Json, usage: dict[str, Json]) -> None:
        if reason := text_in(delta, "stop_reason"):
            self._finish = _FINISH.get(reason, "other")
        # Counts are told more than once in a stream, each time as the sum so far.
        self._usage.update({name: count_in(usage, name) for name in usage if count_in(usage, name)})

    def _total_usage(self) -> Usage:
        cached = self._usage.get("cache_read_input_tokens", 0)
        written = self._usage.get("cache_creation_input_tokens", 0)
        return Usage(
            input_tokens=self._usage.get("input_tokens", 0) + cached + written,
            output_tokens=self._usage.get("output_tokens", 0),
            cached_tokens=cached,
            cache_write_tokens=written,
        )


def _index(event: Json) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else -1


def _messages(
    messages: tuple[ChatMessage, ...], *, is_thinking: bool, sends_images: bool
) -> list[Json]:
    written: list[Json] = []
    for message in messages:
        blocks = _blocks(message)
        if sends_images:
            blocks += map(anthropic_image, message.images)
        if is_thinking and blocks:
            blocks = [*map(_thinking_block, message.signed_reasoning), *blocks]
        if message.role == "system" or not blocks:
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if written and written[-1]["role"] == role:
            written[-1]["content"].extend(blocks)
        else:
            written.append({"role": role, "content": blocks})
    if written and written[0]["role"] == "assistant":
        # The API wants the user to begin, which a history that was cut need not.
        written.insert(0, {"role": "user", "content": [{"type": "text", "text": _OPENING}]})
    return written


def _blocks(message: ChatMessage) -> list[Json]:
    if message.role == "tool":
        result = {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id,
            "content": message.text,
        }
        return [{**result, "is_error": True} if message.is_error else result]
    # Blank texts are refused.
    blocks: list[Json] = [{"type": "text", "text": message.text}] if message.text.strip() else []
    blocks += [
        {
            "type": "tool_use",
            "id": call.call_id,
            "name": call.name,
            "input": dict(call.arguments),
        }
        for call in message.tool_calls
    ]
    return blocks


def _thinking_block(thought: SignedReasoning) -> Json:
    if thought.hidden:
        return {"type": "redacted_thinking", "data": thought.hidden}
    return {"type": "thinking", "thinking": thought.text, "signature": thought.signature}
