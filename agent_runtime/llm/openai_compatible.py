"""Chat completions, the API of OpenAI that most providers and local servers speak too."""

from __future__ import annotations

from urllib.parse import urlsplit

from agent_runtime.errors import ModelResponseError
from agent_runtime.json_value import Json, to_json
from agent_runtime.llm.chat_model import (
    ChatDelta,
    ChatMessage,
    ChatRequest,
    ChatResponse,
    FinishReason,
    Usage,
)
from agent_runtime.llm.dialect import read_json
from agent_runtime.llm.image_parts import openai_image
from agent_runtime.llm.inline_reasoning import InlineReasoning
from agent_runtime.llm.json_fields import count_in, object_in, objects_in, text_in
from agent_runtime.llm.model_config import ModelConfig
from agent_runtime.llm.provider_errors import error_of_body
from agent_runtime.llm.tool_call_parts import ToolCallParts, tool_calls

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
_OWN_HOST = "api.openai.com"


class OpenAICompatible:
    """The dialect of chat completions."""

    path = "/chat/completions"

    def __init__(self, config: ModelConfig) -> None:
        self._config = config

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the bearer token, if there is a key."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ChatRequest, *, is_streamed: bool) -> dict[str, Json]:
        """Return the request; fields that were not asked for are left out."""
        # OpenAI's newer models refuse the name that all others know.
        is_own = urlsplit(self._config.url).hostname == _OWN_HOST
        limit = "max_completion_tokens" if is_own else "max_tokens"
        body: dict[str, Json] = {
            "model": self._config.model,
            "messages": [
                _message(message, sends_images=self._config.reads_images)
                for message in request.messages
            ],
            limit: request.max_tokens or self._config.max_output_tokens,
        }
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        # OpenAI wants the field of tools without parameters too.
                        "parameters": {"properties": {}, **tool.parameters},
                    },
                }
                for tool in request.tools
            ]
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.stop:
            body["stop"] = list(request.stop)
        if is_streamed:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}
        return body

    def read(self, body: Json) -> ChatResponse:
        """Return the answer of a whole body."""
        answer = self.streamed()
        answer.take(body, "message")
        response = answer.finish()
        if response is None:
            raise ModelResponseError(
                f"the provider of model {self._config.model} answered JSON that is no chat "
                "completion; check base_url",
                reason="malformed",
            )
        return response

    def streamed(self) -> OpenAIAnswer:
        """Return an answer still to come."""
        return OpenAIAnswer(self._config.model)


class OpenAIAnswer:
    """A chat completion that is put together from chunks; a whole one is a single chunk."""

    def __init__(self, model: str) -> None:
        self.has_ended = False
        self._model = model
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._inline = InlineReasoning()
        self._calls: list[ToolCallParts] = []
        self._call_at: dict[int, ToolCallParts] = {}
        self._finish: FinishReason | None = None
        self._is_refused = False
        self._usage = Usage()

    def feed(self, data: str) -> ChatDelta:
        """Take a chunk of a stream."""
        if data.strip() == "[DONE]":
            self.has_ended = True
            return ChatDelta()
        return self.take(read_json(data), "delta")

    def take(self, chunk: Json, field: str) -> ChatDelta:
        """Take a chunk.

        Args:
            field: Where its choices hold what is said: `delta` or `message`.
        """
        choices = objects_in(chunk, "choices")
        choice = choices[0] if choices else {}
        for holder in (chunk, choice):
            if isinstance(holder, dict) and (holder.get("error") or _is_bare_error(holder)):
                raise error_of_body(self._model, holder)
        self._model = text_in(chunk, "model") or self._model
        if usage := object_in(chunk, "usage"):
            self._usage = _usage(usage)
        said = object_in(choice, field)
        delta = self._say(said)
        for part in objects_in(said, "tool_calls"):
            self._add_call(part)
        if reason := text_in(choice, "finish_reason"):
            self._finish = _FINISH.get(reason, "other")
        return ChatDelta(delta.text, delta.reasoning, bool(said.get("tool_calls")))

    def finish(self) -> ChatResponse | None:
        """Return the answer, or None if it never ended."""
        finish = self._finish or ("stop" if self.has_ended else None)
        if finish is None:
            return None
        text, reasoning = self._inline.finish()
        calls = tool_calls(self._calls, finish, self._usage)
        if calls and finish == "stop":
            finish = "tool_calls"
        return ChatResponse(
            text="".join(self._text) + text,
            tool_calls=calls,
            finish_reason="content_filter" if self._is_refused else finish,
            usage=self._usage,
            model=self._model,
            reasoning="".join(self._reasoning) + reasoning,
        )

    def _say(self, said: dict[str, Json]) -> ChatDelta:
        # Some put parts where others put text; each server has its own name for reasoning.
        parts = objects_in(said, "content")
        content = text_in(said, "content") or "".join(text_in(part, "text") for part in parts)
        text, reasoning = self._inline.feed(content) if content else ("", "")
        reasoning += text_in(said, "reasoning_content") or text_in(said, "reasoning")
        for part in parts:
            reasoning += "".join(text_in(item, "text") for item in objects_in(part, "thinking"))
        self._is_refused = self._is_refused or bool(text_in(said, "refusal"))
        self._text.append(text)
        self._reasoning.append(reasoning)
        return ChatDelta(text, reasoning)

    def _add_call(self, part: dict[str, Json]) -> None:
        function, call_id = object_in(part, "function"), text_in(part, "id")
        name, index = text_in(function, "name"), part.get("index")
        if isinstance(index, int):
            call = self._call_at.get(index)
        else:
            call = None if call_id or name or not self._calls else self._calls[-1]
        # Some servers number all calls alike and tell them apart by id or name alone.
        if call is None or _differs(call_id, call.call_id) or _differs(name, call.name):
            call = ToolCallParts()
            self._calls.append(call)
            if isinstance(index, int):
                self._call_at[index] = call
        call.call_id = call.call_id or call_id
        call.name = call.name or name
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            call.given = arguments
        elif isinstance(arguments, str):
            call.arguments += arguments


def _differs(told: str, known: str) -> bool:
    return bool(told and known) and told != known


def _is_bare_error(chunk: dict[str, Json]) -> bool:
    # Some servers tell an error without a field for it: what is broken off must not pass for whole.
    if chunk.get("object") == "error":
        return True
    return "choices" not in chunk and bool(text_in(chunk, "message") or chunk.get("detail"))


def _message(message: ChatMessage, *, sends_images: bool) -> dict[str, Json]:
    written: dict[str, Json] = {"role": message.role, "content": message.text}
    if sends_images and message.images:
        texts = [{"type": "text", "text": message.text}] if message.text.strip() else []
        written["content"] = [*texts, *map(openai_image, message.images)]
    if message.role == "tool":
        written["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        written["content"] = message.text or None
        written["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": to_json(dict(call.arguments)).decode(),
                },
            }
            for call in message.tool_calls
        ]
    return written


def _usage(usage: dict[str, Json]) -> Usage:
    details = object_in(usage, "prompt_tokens_details")
    return Usage(
        input_tokens=count_in(usage, "prompt_tokens"),
        output_tokens=count_in(usage, "completion_tokens"),
        cached_tokens=count_in(details, "cached_tokens"),
        cache_write_tokens=count_in(details, "cache_write_tokens"),
    )
