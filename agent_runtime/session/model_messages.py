"""Stored messages as a model is sent them, whoever provides it.

A stored message may hold a call together with its result; models want the call in an assistant's
message and each result in a message of its own right behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_runtime.compaction.json_text import json_text
from agent_runtime.compaction.message_parts import (
    PROVIDER_METADATA,
    UNKNOWN_TOOL,
    has_tool_result,
    is_bare_tool_result,
    is_reasoning_part,
    is_text_part,
    is_tool_part,
    parts_of,
    tool_call_id_of,
    tool_name_of,
    tool_result_of,
)
from agent_runtime.compaction.sanitize import sanitize_tool_pairs
from agent_runtime.compaction.tool_pairs import tool_answers
from agent_runtime.json_value import Json
from agent_runtime.llm.image_parts import DATA_URL

ModelRole = Literal["system", "user", "assistant", "tool"]

_STEP_START = "step-start"
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")
# The narrowest limits of the providers.
_MAX_CALL_ID = 40
_MAX_TOOL_NAME = 64


@dataclass(frozen=True)
class ModelToolCall:
    """A tool that the model asked for.

    Attributes:
        call_id: Joins it with its result; no two calls of a conversation share one.
        name: Of the tool, as every provider takes it.
        arguments: The input as it was stored, normally an object.
    """

    call_id: str
    name: str
    arguments: Json


@dataclass(frozen=True)
class ModelFile:
    """A file that a user sent: a `data:` or other URL, with its media type and name if known."""

    url: str
    media_type: str = ""
    name: str = ""


@dataclass(frozen=True)
class ModelMessage:
    """One message to a model.

    Attributes:
        role: `tool` for a result.
        text: Text parts joined by newlines, or the result as text.
        files: Of a user.
        tool_calls: Of an assistant; their results are the next messages.
        tool_call_id: Which call a result belongs to, else `""`.
        is_error: Whether a result tells that the tool failed.
        reasoning: Of an assistant: parts of reasoning, as stored, that carry metadata of their
            provider, who may want them back.
    """

    role: ModelRole
    text: str = ""
    files: tuple[ModelFile, ...] = ()
    tool_calls: tuple[ModelToolCall, ...] = ()
    tool_call_id: str = ""
    is_error: bool = False
    reasoning: tuple[dict[str, Json], ...] = ()


def assemble_model_messages(messages: Sequence[Mapping[str, Json]]) -> list[ModelMessage]:
    """Return what to send to a model of a visible history: every call with exactly one result.

    Results whose calls were summarized are left out, calls without a result get one that says so
    (F26b).
    """
    return to_model_messages(sanitize_tool_pairs(messages))


def to_model_messages(
    messages: Sequence[Mapping[str, Json]], *, ignore_incomplete_tool_calls: bool = False
) -> list[ModelMessage]:
    """Return stored messages as a model's, in order, without repairing them.

    Each result follows its call at once, even if it was stored later; one without a call is left
    out. A call without a result stays one, which models' APIs refuse, or is left out when
    `ignore_incomplete_tool_calls`. Reasoning, sources and data parts are left out, and messages of
    nothing else. A part `step-start` begins a new assistant's message. Ids of calls are unique, and
    ids and names have at most 40 and 64 ASCII letters, digits, `_` and `-`: a provider would refuse
    the whole conversation for one that another gave or a model made up. Linear.
    """
    return list(_Conversion(messages, ignore_incomplete_tool_calls).converted())


class _Conversion:
    def __init__(
        self, messages: Sequence[Mapping[str, Json]], ignore_incomplete_tool_calls: bool
    ) -> None:
        self._messages = messages
        self._ignore_incomplete = ignore_incomplete_tool_calls
        self._answers: dict[tuple[int, str], Mapping[str, Json]] = {}
        self._told: set[tuple[int, str]] = set()
        self._numbers: dict[str, int] = {}
        self._used: set[str] = set()
        for answer in tool_answers(messages):
            self._told.add((answer.answer_index, answer.call_id))
            if has_tool_result(answer.part):
                self._answers.setdefault((answer.call_index, answer.call_id), answer.part)

    def converted(self) -> Iterator[ModelMessage]:
        for index, message in enumerate(self._messages):
            if message.get("role") == "assistant":
                for step in _steps(message):
                    yield from self._assistant(index, step)
                continue
            role: ModelRole = "system" if message.get("role") == "system" else "user"
            text = _text(parts_of(message))
            files = tuple(_files(parts_of(message)))
            if text or files:
                yield ModelMessage(role, text, files)

    def _assistant(self, index: int, parts: list[dict[str, Json]]) -> Iterator[ModelMessage]:
        calls: list[ModelToolCall] = []
        results: list[ModelMessage] = []
        for part in parts:
            if not is_tool_part(part) or is_bare_tool_result(part):
                continue
            stored_id = tool_call_id_of(part)
            if stored_id is None or (index, stored_id) in self._told:
                continue
            self._told.add((index, stored_id))
            answer = part if has_tool_result(part) else self._answer(index, stored_id)
            if answer is None and self._ignore_incomplete:
                continue
            call_id = self._unique(stored_id)
            arguments = {} if part.get("input") is None else part["input"]
            calls.append(ModelToolCall(call_id, _sendable_name(part), arguments))
            if answer is not None:
                results.append(_result(call_id, answer))
        files = "\n".join(map(describe_file, _files(parts)))
        text = "\n".join(filter(None, (_text(parts), files)))
        if text or calls:
            yield ModelMessage(
                "assistant", text, tool_calls=tuple(calls), reasoning=tuple(_reasoning(parts))
            )
        yield from results

    def _answer(self, index: int, call_id: str) -> Mapping[str, Json] | None:
        for part in parts_of(self._messages[index]):
            if is_bare_tool_result(part) and tool_call_id_of(part) == call_id:
                return part
        return self._answers.get((index, call_id))

    def _unique(self, call_id: str) -> str:
        plain = unique = _FORBIDDEN.sub("_", call_id)[:_MAX_CALL_ID]
        number = self._numbers.get(plain, 1)
        while unique in self._used:
            number += 1
            suffix = f"-{number}"
            unique = plain[: _MAX_CALL_ID - len(suffix)] + suffix
        self._numbers[plain] = number
        self._used.add(unique)
        return unique


def media_type_of(file: ModelFile) -> str:
    """Return a file's media type, if need be as its `data:` URL has it, else `""`."""
    inline = DATA_URL.match(file.url)
    return file.media_type or (inline[1] if inline else "")


def describe_file(file: ModelFile) -> str:
    """Return a line that stands for a file where it cannot be sent itself."""
    where = "" if file.url.startswith("data:") else file.url
    return f"[file: {' '.join(filter(None, (file.name, file.media_type, where))) or 'unnamed'}]"


def _reasoning(parts: list[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    return (part for part in parts if is_reasoning_part(part) and PROVIDER_METADATA in part)


def _sendable_name(part: Mapping[str, Json]) -> str:
    return _FORBIDDEN.sub("_", tool_name_of(part) or UNKNOWN_TOOL)[:_MAX_TOOL_NAME]


def _steps(message: Mapping[str, Json]) -> list[list[dict[str, Json]]]:
    steps: list[list[dict[str, Json]]] = [[]]
    for part in parts_of(message):
        if part.get("type") == _STEP_START:
            steps.append([])
        else:
            steps[-1].append(part)
    return steps


def _text(parts: Sequence[Mapping[str, Json]]) -> str:
    texts = (part.get("text") for part in parts if is_text_part(part))
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _files(parts: Sequence[Mapping[str, Json]]) -> Iterator[ModelFile]:
    for part in parts:
        url = part.get("url")
        if part.get("type") == "file" and isinstance(url, str):
            yield ModelFile(url, part.get("mediaType") or "", part.get("filename") or "")


def _result(call_id: str, part: Mapping[str, Json]) -> ModelMessage:
    error = part.get("errorText")
    value = tool_result_of(part) if error is None else error
    text = value if isinstance(value, str) else json_text(value)
    is_error = error is not None or part.get("state") == "output-error"
    return ModelMessage("tool", text, tool_call_id=call_id, is_error=is_error)
