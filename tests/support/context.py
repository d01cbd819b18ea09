"""A session's context without the session, over a list of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import orjson

from agent_runtime.json_value import Json
from agent_runtime.session.context_block import ContextBlock, ContextConfig
from agent_runtime.session.context_blocks import ContextBlocks
from agent_runtime.session.context_provider import ContextProvider, PromptStore
from agent_runtime.session.message import Message
from agent_runtime.session.session_provider import RowStats, SessionProvider
from agent_runtime.session.skills import LoadedSkills
from agent_runtime.session.system_prompt import SystemPrompt
from agent_runtime.session.tools import session_tools


class ReadOnly:
    """A provider of text only."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def get(self) -> str | None:
        """Return the text."""
        return self.text


class Failing:
    """A provider that fails until it is mended."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.is_broken = True

    async def get(self) -> str:
        """Return the text or fail."""
        if self.is_broken:
            raise OSError("no answer")
        return self.text


class PlainStore:
    """A list of messages as a store: one path, without sizes."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self.messages = [*messages]
        self.hidden: set[str] = set()
        self.reads = {"history": 0, "stats": 0, "single": 0}
        self.error: Exception | None = None

    async def get_history(self, leaf_id: str | None = None) -> list[Message]:
        """Return the visible messages."""
        self.reads["history"] += 1
        if self.error is not None:
            raise self.error
        return [message for message in self.messages if message["id"] not in self.hidden]

    async def update_message(self, message: Message) -> bool:
        """Replace a message."""
        if self.error is not None:
            raise self.error
        for index, present in enumerate(self.messages):
            if present["id"] == message["id"]:
                self.messages[index] = message
                return True
        return False


class SizedStore(PlainStore):
    """The same, telling sizes, and single messages under a summary."""

    async def get_history_row_stats(self, leaf_id: str | None = None) -> list[RowStats]:
        """Return the raw messages' sizes."""
        self.reads["stats"] += 1
        if self.error is not None:
            raise self.error
        return [
            RowStats(message["id"], message["role"], len(orjson.dumps(message)))
            for message in self.messages
        ]

    async def get_message(self, message_id: str) -> Message | None:
        """Return one raw message."""
        self.reads["single"] += 1
        return next((found for found in self.messages if found["id"] == message_id), None)


class Context:
    """What a session composes, for one set of blocks."""

    def __init__(
        self,
        *blocks: ContextConfig,
        store: Any = None,
        prompt_store: PromptStore | None = None,
    ) -> None:
        self.store: Any = store or SizedStore()
        self.blocks = ContextBlocks(blocks)
        self.prompt = SystemPrompt(self.blocks, prompt_store)
        self.skills = LoadedSkills(cast("SessionProvider", self.store), self.blocks)

    async def tools(self) -> dict[str, Any]:
        """Return the tools after what a session does first."""
        await self.skills.restore()
        return await session_tools(self.blocks, self.skills)

    async def use(self, tool: str, **arguments: Json) -> str:
        """Let the model use a tool."""
        result = await (await self.tools())[tool].execute(arguments)
        assert isinstance(result, str)
        return result

    async def append(self, message: Message) -> None:
        """Store a message as a session does."""
        message = self.skills.with_markers(message)
        self.store.messages.append(message)
        self.skills.note_stored(message)

    async def block(self, label: str) -> ContextBlock:
        """Return a block that must be there."""
        found = await self.blocks.get_context_block(label)
        assert found is not None
        return found


def block(
    label: str,
    provider: ContextProvider | None = None,
    description: str | None = None,
    max_tokens: int | None = None,
) -> ContextConfig:
    """Return a block's set-up, the provider before what is seldom given."""
    return ContextConfig(label, description, max_tokens, provider)


def call(
    tool: str, key: str, output: Json, *, label: str = "skills", type: str = "dynamic-tool"
) -> dict[str, Json]:
    """Return a part that shows a finished call about a skill."""
    part: dict[str, Json] = {
        "type": type,
        "state": "output-available",
        "input": {"label": label, "key": key},
        "output": output,
    }
    return part if type.startswith("tool-") else {**part, "toolName": tool}


def assistant(id: str, *parts: dict[str, Json]) -> Message:
    """Return an assistant's message."""
    return {"id": id, "role": "assistant", "parts": [*parts]}


def user(id: str) -> Message:
    """Return a user's message."""
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": f"{id} message"}]}
