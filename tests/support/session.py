"""Short forms for tests of sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from agent_runtime.compaction.compact_context import CompactContext, CompactResult
from agent_runtime.json_value import Json
from agent_runtime.session.message import Message, message_text, text_message
from agent_runtime.session.session import Session
from agent_runtime.session.session_events import SessionEvent
from agent_runtime.session.session_store import SessionStore


class Owner:
    """Whoever has conversations and clients: keeps the frames that were sent to them."""

    def __init__(self, store: SessionStore) -> None:
        self.session_store = store
        self.texts: list[str] = []

    def broadcast(self, text: str) -> None:
        """Keep a frame."""
        self.texts.append(text)

    @property
    def frames(self) -> list[dict[str, Any]]:
        """The frames, read."""
        return [orjson.loads(text) for text in self.texts]

    @property
    def phases(self) -> list[str]:
        """The frames in a word each; one that tells of a compaction has a plus sign."""
        return [
            "error"
            if frame["type"] == "cf_agent_session_error"
            else frame["phase"] + ("+" if "compacted" in frame else "")
            for frame in self.frames
        ]

    def forget(self) -> None:
        """Drop the frames so far."""
        self.texts.clear()


class Summaries:
    """A compaction function that gives prepared results, the last one for ever.

    Args:
        results: `(from, to, summary)`, an exception to raise, or None.
    """

    def __init__(self, *results: tuple[str, str, str] | Exception | None) -> None:
        self.results = [*results]
        self.seen: list[list[Message]] = []
        self.contexts: list[CompactContext | None] = []

    async def __call__(
        self, messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult | None:
        """Note what was given and answer."""
        self.seen.append([dict(message) for message in messages])
        self.contexts.append(context)
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, Exception):
            raise result
        return CompactResult(*result) if result is not None else None


class Prompts:
    """A summarizer that keeps its prompts."""

    def __init__(self, *summaries: str) -> None:
        self.summaries = [*summaries]
        self.seen: list[str] = []

    async def __call__(self, prompt: str) -> str:
        """Answer with the next summary, the last one for ever."""
        self.seen.append(prompt)
        return self.summaries.pop(0) if len(self.summaries) > 1 else self.summaries[0]


class Events:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.seen: list[SessionEvent] = []

    def __call__(self, event: SessionEvent) -> None:
        """Keep an event."""
        self.seen.append(event)

    @property
    def kinds(self) -> list[str]:
        """The events' class names."""
        return [type(event).__name__ for event in self.seen]


def user(id: str, text: str = "hello") -> Message:
    """Return a user's message of one text."""
    return text_message("user", text, id=id)


def assistant(id: str, text: str = "hello") -> Message:
    """Return an assistant's message of one text."""
    return text_message("assistant", text, id=id)


def chain_message(index: int, text: str | None = None) -> Message:
    """Return message `m<index>` of a chain: users and assistants take turns."""
    role = "assistant" if index % 2 else "user"
    return text_message(role, f"m message {index}" if text is None else text, id=f"m{index}")


async def append_chain(
    session: Session, count: int, *, start: int = 0, text: str | None = None
) -> None:
    """Append `m<start>` and the following ones, without saying where."""
    for index in range(start, start + count):
        await session.append_message(chain_message(index, text))


async def set_context(session: Session, label: str, content: str, **arguments: Json) -> str:
    """Let the model write to a block."""
    tool = (await session.tools())["set_context"]
    return await tool.execute({"label": label, "content": content, **arguments})


async def use(session: Session, tool: str, **arguments: Json) -> str:
    """Let the model use a tool."""
    return await (await session.tools())[tool].execute(arguments)


def load_part(key: str, output: str, *, label: str = "skills") -> dict[str, Json]:
    """Return the part of a message that shows how a skill was loaded."""
    return {
        "type": "tool-load_context",
        "toolCallId": f"load-{key}",
        "state": "output-available",
        "input": {"label": label, "key": key},
        "output": output,
    }


def with_parts(id: str, *parts: dict[str, Json]) -> Message:
    """Return an assistant's message."""
    return {"id": id, "role": "assistant", "parts": [*parts]}


def ids(messages: Iterable[Message]) -> list[str]:
    """Return the ids, summaries as `S`."""
    return ["S" if each["id"].startswith("compaction_") else each["id"] for each in messages]


def shown(messages: Iterable[Message]) -> list[str]:
    """Return the ids, summaries as their text."""
    return [
        message_text(each) if each["id"].startswith("compaction_") else each["id"]
        for each in messages
    ]


async def ranges(session: Session) -> list[tuple[str, str, str]]:
    """Return the stored overlays in short."""
    return [
        (each.from_message_id, each.to_message_id, each.summary)
        for each in await session.get_compactions()
    ]


def long_text(index: int, length: int) -> Message:
    """Return message `m<index>` with a text of that length."""
    return text_message("assistant" if index % 2 else "user", "x" * length, id=f"m{index}")
