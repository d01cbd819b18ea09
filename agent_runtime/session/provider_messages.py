"""A model's messages in the two forms that providers understand: OpenAI's chat and Anthropic's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent_runtime.compaction.json_text import json_text
from agent_runtime.json_value import Json
from agent_runtime.llm.chat_model import ChatImage
from agent_runtime.llm.image_parts import (
    DATA_URL,
    anthropic_image,
    anthropic_source,
    is_reachable,
    is_sendable,
    openai_image,
)
from agent_runtime.session.model_messages import (
    ModelFile,
    ModelMessage,
    describe_file,
    media_type_of,
)

CONVERSATION_GOES_ON = "[The conversation goes on.]"
"""What a user is made to say where a provider wants the first message to be a user's."""

_FORBIDDEN_IN_ID = re.compile(r"[^A-Za-z0-9_-]")
_DOCUMENT = "application/pdf"


@dataclass(frozen=True)
class AnthropicMessages:
    """The `system` and `messages` fields of a request to Anthropic's Messages API."""

    system: str
    messages: list[dict[str, Json]]


def openai_messages(messages: Sequence[ModelMessage]) -> list[dict[str, Json]]:
    """Return the `messages` field of a chat completion.

    Images are sent as such, other inline files as files; a file by URL that is no image becomes a
    line of text.
    """
    return [_openai_message(message) for message in messages]


def anthropic_messages(messages: Sequence[ModelMessage]) -> AnthropicMessages:
    """Return the `system` and `messages` fields of a request to the Messages API.

    System messages are joined; messages of one role in a row become one; results are blocks of a
    user's message, before its text. A conversation that begins with the assistant, as a summary
    does, gets a user's first message. Images and PDF documents are sent as such, other files
    become a line of text. Characters that call ids may not have are replaced.
    """
    system = "\n\n".join(each.text for each in messages if each.role == "system")
    written: list[dict[str, Json]] = []
    for message in messages:
        blocks = _anthropic_blocks(message)
        role = "assistant" if message.role == "assistant" else "user"
        if message.role == "system" or not blocks:
            continue
        if written and written[-1]["role"] == role:
            written[-1]["content"] += blocks
        else:
            written.append({"role": role, "content": blocks})
    if written and written[0]["role"] == "assistant":
        written.insert(0, {"role": "user", "content": [_text_block(CONVERSATION_GOES_ON)]})
    return AnthropicMessages(system, written)


def _openai_message(message: ModelMessage) -> dict[str, Json]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
    if message.tool_calls:
        calls = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": json_text(call.arguments)},
            }
            for call in message.tool_calls
        ]
        return {"role": message.role, "content": message.text or None, "tool_calls": calls}
    if not message.files:
        return {"role": message.role, "content": message.text}
    texts = [_text_block(message.text)] if message.text else []
    return {"role": message.role, "content": [*texts, *map(_openai_file, message.files)]}


def _openai_file(file: ModelFile) -> dict[str, Json]:
    media_type = media_type_of(file)
    if media_type.startswith("image/"):
        return openai_image(ChatImage(file.url, media_type))
    if DATA_URL.match(file.url):
        return {"type": "file", "file": {"filename": file.name or "file", "file_data": file.url}}
    return _text_block(describe_file(file))


def _anthropic_blocks(message: ModelMessage) -> list[dict[str, Json]]:
    if message.role == "tool":
        result: dict[str, Json] = {
            "type": "tool_result",
            "tool_use_id": _anthropic_id(message.tool_call_id),
            "content": message.text,
        }
        return [{**result, "is_error": True} if message.is_error else result]
    blocks = [_text_block(message.text)] if message.text.strip() else []
    blocks += map(_anthropic_file, message.files)
    for call in message.tool_calls:
        is_object = isinstance(call.arguments, dict)
        blocks.append(
            {
                "type": "tool_use",
                "id": _anthropic_id(call.call_id),
                "name": call.name,
                "input": call.arguments if is_object else {"input": call.arguments},
            }
        )
    return blocks


def _anthropic_file(file: ModelFile) -> dict[str, Json]:
    media_type = media_type_of(file)
    if is_sendable(file.url, media_type):
        return anthropic_image(ChatImage(file.url, media_type))
    if media_type == _DOCUMENT and is_reachable(file.url):
        return {"type": "document", "source": anthropic_source(file.url, media_type)}
    return _text_block(describe_file(file))


def _anthropic_id(call_id: str) -> str:
    return _FORBIDDEN_IN_ID.sub("_", call_id)


def _text_block(text: str) -> dict[str, Json]:
    return {"type": "text", "text": text}
