"""Which skills a conversation has loaded, and taking their text out of it again (contract 15)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

from agent_runtime.errors import describe
from agent_runtime.json_value import Json
from agent_runtime.session.context_blocks import ContextBlocks
from agent_runtime.session.maybe_await import maybe_await
from agent_runtime.session.message import Message
from agent_runtime.session.run_once import RunOnce, run_now
from agent_runtime.session.session_provider import RowStatsProvider, SessionProvider
from agent_runtime.session.skill_parts import (
    Skill,
    load_calls,
    replay,
    shown_skills,
    with_unloaded,
)

logger = logging.getLogger("agent_runtime")


class LoadedSkills:
    """The skills that are loaded in one session.

    Nothing of it is stored: after a restart the conversation itself tells what is loaded.

    Args:
        provider: The session's messages.
        blocks: Its context blocks.
        update_message: How a changed message is saved; the provider's way unless given.
        once: Runs what unloads a skill.
    """

    def __init__(
        self,
        provider: SessionProvider,
        blocks: ContextBlocks,
        update_message: Callable[[Message], Awaitable[object]] | None = None,
        once: RunOnce = run_now,
    ) -> None:
        self._provider = provider
        self._blocks = blocks
        self._update_message = update_message or self._update
        self._once = once
        self._loaded: dict[Skill, None] = {}
        # Of each skill the loads that no stored message shows yet: True for one unloaded since.
        self._unstored: dict[Skill, list[bool]] = {}
        self._is_restored = False
        self._lock = asyncio.Lock()

    async def restore(self) -> None:
        """Find out from the conversation what is loaded: once, as soon as there is a skill block.

        Call it before each operation of the session; it costs nothing afterwards. A conversation
        that cannot be read is logged and counts as one without skills.
        """
        if self._is_restored or not self._blocks.has_skills:
            return
        async with self._lock:
            if self._is_restored:
                return
            found: dict[Skill, None] = {}
            try:
                async for message in self._assistant_messages():
                    replay(message, found)
            except Exception as error:
                logger.error("the loaded skills cannot be restored: %s", describe(error))
                found = {}
            self._loaded = {**found, **self._loaded}
            self._is_restored = True

    def get_loaded_skill_keys(self) -> set[str]:
        """Return the loaded skills as `label:key`, in a set of the caller's own."""
        return set(self.list_loaded())

    def list_loaded(self) -> list[str]:
        """Return the loaded skills as `label:key`, in the order they were loaded."""
        return [f"{label}:{key}" for label, key in self._loaded]

    def mark_loaded(self, label: str, key: str) -> None:
        """Take note of a document that the model is about to receive."""
        self._loaded[label, key] = None
        self._unstored.setdefault((label, key), []).append(False)

    async def unload_skill(self, label: str, key: str) -> bool:
        """Replace a loaded document by a marker wherever the active path holds it.

        Messages under a compaction's summary are changed too, if the store tells its rows. A load
        that no stored message shows yet is replaced when its message is stored. When saving fails,
        the skill stays loaded and the error comes through; after a crash between two messages it
        stays loaded as long as one of them holds it.

        Returns:
            False if it is not loaded.
        """
        skill = (label, key)

        async def run() -> bool:
            return await self._unload(skill)

        async def recall(recorded: Json) -> bool:
            return recorded is not None

        return await self._once("unload_skill", [label, key], run, recall)

    async def _unload(self, skill: Skill) -> bool:
        if skill not in self._loaded:
            return False
        del self._loaded[skill]
        if skill in self._unstored:
            self._unstored[skill] = [True] * len(self._unstored[skill])
        try:
            async for message in self._assistant_messages():
                marked = with_unloaded(message, lambda shown: shown == skill)
                if marked is not message:
                    await self._update_message(marked)
        except BaseException:
            self._loaded[skill] = None
            raise
        return True

    def with_markers(self, message: Message) -> Message:
        """Return a valid message as it is to be stored: without the text of unloaded skills.

        Call it for each message that is appended or updated, and `note_stored` once that is done;
        a write that failed may be repeated with either.
        """
        return self.all_with_markers([message])[0]

    def all_with_markers(self, messages: Sequence[Message]) -> list[Message]:
        """Return valid messages that are stored together as they are to be stored, in order."""
        if not self._unstored:
            return list(messages)
        shown = [skill for message in messages for skill in _shown_in(message)]
        # Earlier loads may belong to a turn that was given up: those shown are the latest ones.
        decisions = {
            skill: iter(_last(self._unstored.get(skill, []), count))
            for skill, count in Counter(shown).items()
        }
        return [
            with_unloaded(message, lambda skill: next(decisions[skill]))
            if message["role"] == "assistant"
            else message
            for message in messages
        ]

    def note_stored(self, message: Message) -> None:
        """Take note that the loads a message shows are stored."""
        if message["role"] != "assistant" or not self._blocks.has_skills:
            return
        for skill in load_calls(message):
            self._unstored.pop(skill, None)
        # A handler that is repeated stores what its first run had loaded.
        self._loaded.update(dict.fromkeys(shown_skills(message)))

    def forget_block(self, label: str) -> None:
        """Drop the tracking of a removed block's skills; the conversation stays as it is."""
        for skill in [skill for skill in self._loaded if skill[0] == label]:
            del self._loaded[skill]
        for skill in [skill for skill in self._unstored if skill[0] == label]:
            del self._unstored[skill]

    def clear(self) -> None:
        """Drop all tracking, as when the conversation is cleared."""
        self._loaded.clear()
        self._unstored.clear()

    async def _update(self, message: Message) -> None:
        await maybe_await(self._provider.update_message(message))

    async def _assistant_messages(self) -> AsyncIterator[Message]:
        if not isinstance(self._provider, RowStatsProvider):
            for message in await maybe_await(self._provider.get_history()):
                if message["role"] == "assistant":
                    yield message
            return
        for row in await maybe_await(self._provider.get_history_row_stats()):
            if row.role == "assistant":
                # Others may delete messages while they are read one by one.
                found = await maybe_await(self._provider.get_message(row.id))
                if found is not None:
                    yield found


def _shown_in(message: Message) -> Iterator[Skill]:
    if message["role"] == "assistant":
        yield from shown_skills(message)


def _last(loads: list[bool], count: int) -> list[bool]:
    return [False] * (count - len(loads)) + loads[max(0, len(loads) - count) :]
