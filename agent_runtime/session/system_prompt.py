"""The system prompt of a session: made once, then kept until it is refreshed (contract 13)."""

from __future__ import annotations

import logging

from agent_runtime.errors import describe
from agent_runtime.json_value import fingerprint
from agent_runtime.session.context_block import ContextConfig, load_content
from agent_runtime.session.context_blocks import ContextBlocks
from agent_runtime.session.context_provider import (
    PromptStore,
    StoredPrompt,
    is_fingerprinted_store,
    is_static_provider,
)
from agent_runtime.session.maybe_await import maybe_await
from agent_runtime.session.one_at_a_time import OneAtATime
from agent_runtime.session.prompt_text import prompt_text

logger = logging.getLogger("agent_runtime")


class SystemPrompt:
    """The frozen prompt of one session.

    A prompt in which a block is missing because its provider failed stays with this object: it is
    never stored, so the next one to open the session makes a whole one.

    Args:
        blocks: What it is made of.
        prompt_store: Where it is kept for other objects and after a restart; None for nowhere.
    """

    def __init__(self, blocks: ContextBlocks, prompt_store: PromptStore | None = None) -> None:
        self._blocks = blocks
        self._store = prompt_store
        self._snapshot: str | None = None
        self._is_provisional = False
        self._fingerprint: str | None = None
        self._turns = OneAtATime("the prompt")

    async def freeze_system_prompt(self) -> str:
        """Return the prompt, making it on first use; the same text however often it is called.

        A stored prompt is taken as it is, the empty one too, and loads no blocks. One that was made
        for another configuration or another text of a static block is made anew (F16).
        """
        async with self._turns.turn():
            if self._is_provisional and self._snapshot is not None:
                return self._snapshot
            stored = await self._stored()
            if stored is not None and await self._fits(stored):
                return stored.prompt
            if self._snapshot is None:
                await self._render()
            return await self._kept()

    async def refresh_system_prompt(self) -> str:
        """Read all providers again and return the prompt that is valid from now on."""
        async with self._turns.turn():
            await self._blocks.reload()
            await self._render()
            return await self._kept()

    async def text_for_estimate(self) -> str:
        """Return what the prompt is or would be, keeping and storing nothing (contract 13.4)."""
        if self._snapshot is not None:
            return self._snapshot
        stored = await self._stored()
        if stored is not None:
            return stored.prompt
        return prompt_text(await self._blocks.get_context_blocks())

    async def _render(self) -> None:
        blocks = await self._blocks.get_context_blocks()
        self._snapshot = prompt_text(blocks)
        self._is_provisional = not all(block.is_available for block in blocks)

    async def _kept(self) -> str:
        prompt = self._snapshot or ""
        if self._store is None or self._is_provisional:
            return prompt
        if is_fingerprinted_store(self._store):
            stored = StoredPrompt(prompt, await self._configuration())
            await maybe_await(self._store.set_prompt(stored))
        else:
            await maybe_await(self._store.set(prompt))
        return prompt

    async def _stored(self) -> StoredPrompt | None:
        if self._store is None:
            return None
        if is_fingerprinted_store(self._store):
            return await maybe_await(self._store.get_prompt())
        prompt = await maybe_await(self._store.get())
        return None if prompt is None else StoredPrompt(prompt)

    async def _fits(self, stored: StoredPrompt) -> bool:
        if stored.fingerprint is None:
            return True
        return await self._configuration() in (stored.fingerprint, None)

    async def _configuration(self) -> str | None:
        """Return the fingerprint of the blocks as set up, None while a static one is unreadable."""
        if self._fingerprint is None:
            try:
                facts = [await _facts(config) for config in self._blocks.configured]
            except Exception as error:
                logger.error("the system prompt's fingerprint is unknown: %s", describe(error))
                return None
            self._fingerprint = fingerprint(facts)
        return self._fingerprint


async def _facts(config: ContextConfig) -> list[str | int | bool | None]:
    is_fixed = not config.is_writable and is_static_provider(config.provider)
    return [
        config.label,
        config.description,
        config.max_tokens,
        config.is_writable,
        config.is_skill,
        config.is_searchable,
        await load_content(config) if is_fixed else None,
    ]
