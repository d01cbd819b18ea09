"""A conversation as it is sent to a language model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from agent_runtime.generation.stored_reasoning import signed_reasoning
from agent_runtime.json_value import Json
from agent_runtime.llm.chat_model import (
    ChatImage,
    ChatMessage,
    ChatRequest,
    ToolCall,
    ToolDefinition,
)
from agent_runtime.llm.image_parts import is_sendable
from agent_runtime.session.model_messages import (
    ModelFile,
    ModelMessage,
    assemble_model_messages,
    describe_file,
    media_type_of,
)
from agent_runtime.session.skill_parts import shows_skill
from agent_runtime.session.tool import Tool
from agent_runtime.session.truncation import truncate_older_messages


def chat_request(
    system: str, history: Sequence[dict[str, Json]], tools: Iterable[Tool]
) -> ChatRequest:
    """Return the request for the next message of a conversation.

    Long texts and tool outputs of older messages are shortened, but for loaded skills: they are
    there until they are unloaded. Every call has exactly one result. Files become a line of text
    each; images go beside it, for models that look at them.

    Args:
        system: The system prompt; blank for none.
        history: As it is visible, root first.
    """
    messages = [ChatMessage("system", system)] if system.strip() else []
    sent = assemble_model_messages(_shortened(history))
    # What a model thought is wanted within a turn only, where it goes on from its tools.
    asked_at = max((at for at, each in enumerate(sent) if each.role == "user"), default=-1)
    messages += (_chat_message(each, is_of_this_turn=at > asked_at) for at, each in enumerate(sent))
    return ChatRequest(tuple(messages), tuple(_definitions(tools)))


def _shortened(history: Sequence[dict[str, Json]]) -> list[dict[str, Json]]:
    shortened = truncate_older_messages(history)
    return [
        short
        if short is whole
        else {
            **short,
            "parts": [
                part if shows_skill(part) else short_part
                for part, short_part in zip(whole["parts"], short["parts"], strict=True)
            ],
        }
        for short, whole in zip(shortened, history, strict=True)
    ]


def _chat_message(message: ModelMessage, *, is_of_this_turn: bool) -> ChatMessage:
    files = map(describe_file, message.files)
    calls = (
        ToolCall(call.call_id, call.name, _object(call.arguments)) for call in message.tool_calls
    )
    return ChatMessage(
        message.role,
        "\n".join(filter(None, (message.text, *files))),
        tuple(calls),
        message.tool_call_id,
        signed_reasoning(message.reasoning) if is_of_this_turn else (),
        tuple(_images(message.files)),
        message.is_error,
    )


def _images(files: Iterable[ModelFile]) -> Iterator[ChatImage]:
    for file in files:
        media_type = media_type_of(file)
        if is_sendable(file.url, media_type):
            yield ChatImage(file.url, media_type)


def _object(arguments: Json) -> Mapping[str, Json]:
    return arguments if isinstance(arguments, dict) else {"input": arguments}


def _definitions(tools: Iterable[Tool]) -> Iterator[ToolDefinition]:
    for tool in tools:
        yield ToolDefinition(tool.name, tool.description, tool.parameters)
