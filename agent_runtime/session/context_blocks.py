"""A session's context blocks: loading, writing, adding and removing them (contract 11)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import cast

from agent_runtime.compaction.token_estimate import estimate_string_tokens
from agent_runtime.errors import ContextBlockError, SessionSetupError, describe
from agent_runtime.json_value import Json
from agent_runtime.session.context_block import (
    ContextBlock,
    ContextConfig,
    checked_text,
    empty_block,
    get_content,
    load_content,
)
from agent_runtime.session.context_provider import (
    ContextProvider,
    KeyedSearchWriter,
    KeyedSkillWriter,
    SearchContextProvider,
    SkillProvider,
    WritableContextProvider,
    is_comparing_provider,
)
from agent_runtime.session.given_text import given_text
from agent_runtime.session.maybe_await import maybe_await
from agent_runtime.session.one_at_a_time import OneAtATime
from agent_runtime.session.run_once import RunOnce, run_now

logger = logging.getLogger("agent_runtime")

APPEND_TRIES = 100


class ContextBlocks:
    """The blocks of one session, in the order they were registered.

    Everything that reads or changes blocks happens one after the other; the first of it loads them.
    A block whose provider cannot be read keeps the last content known and is marked; the others are
    as usable as ever (F20).

    Args:
        blocks: The blocks as they are set up.
        once: Runs what writes to a provider.

    Raises:
        SessionSetupError: Two blocks have one label.
    """

    def __init__(self, blocks: Sequence[ContextConfig] = (), once: RunOnce = run_now) -> None:
        self._once = once
        self._configs: dict[str, ContextConfig] = {}
        for config in blocks:
            if config.label in self._configs:
                raise SessionSetupError(
                    f'two context blocks are called "{config.label}"; choose another label'
                )
            self._configs[config.label] = config
        self.configured = tuple(blocks)
        """The blocks the session was set up with, whatever was added or removed since."""
        self._blocks: dict[str, ContextBlock] = {}
        self._is_loaded = False
        self._loads = 0
        self._turns = OneAtATime("the blocks")

    @property
    def has_skills(self) -> bool:
        """Whether a block is a collection of skills; tells without loading."""
        return any(config.is_skill for config in self._configs.values())

    async def load(self) -> None:
        """Read every provider in order; who calls while this runs waits for the same reading."""
        loads = self._loads
        async with self._turns.turn():
            if self._loads == loads:
                await self._load_all()

    async def reload(self) -> None:
        """Read every provider in order, with a reading that begins after the call."""
        async with self._turns.turn():
            await self._load_all()

    async def get_context_block(self, label: str) -> ContextBlock | None:
        """Return a block, None if there is none of that label; loads on first use (F32)."""
        await self._ensure_loaded()
        return self._blocks.get(label)

    async def get_context_blocks(self) -> list[ContextBlock]:
        """Return all blocks in order; loads on first use (F32)."""
        await self._ensure_loaded()
        return list(self._blocks.values())

    async def replace_context_block(self, label: str, content: str) -> ContextBlock:
        """Store a block's whole content; the frozen prompt stays as it is.

        What the provider raises comes through, and the block is unchanged then.

        Raises:
            ContextBlockError: The label is unknown or read-only, the block is keyed, or the content
                exceeds `max_tokens`.
            InvalidRequestError: The content is no text.
        """
        given_text(content, "content")

        async def run() -> ContextBlock:
            async with self._turns.turn():
                await self._load_first()
                block, provider = self._plain(label)
                _check_length(block, content)
                await maybe_await(provider.set(content))
                return self._keep(block.with_content(content))

        return await self._once(
            "replace_context_block", [label, content], run, self._recalling(label)
        )

    async def append_context_block(self, label: str, content: str) -> ContextBlock:
        """Add to a block's content, on a new line unless it is empty; repeated, it adds again.

        The provider is read anew, so nothing is lost that another session wrote before. A provider
        with `compare_and_set` loses nothing that is written meanwhile either.

        Raises:
            ContextBlockError: The label is unknown or read-only, the block is keyed, the whole
                would exceed `max_tokens`, or others kept changing the content.
            InvalidRequestError: The content is no text.
        """
        given_text(content, "content")

        async def run() -> ContextBlock:
            async with self._turns.turn():
                await self._load_first()
                if label not in self._configs:
                    raise ContextBlockError(f'Block "{label}" not found')
                block, provider = self._plain(label)
                for _ in range(APPEND_TRIES):
                    present = await get_content(label, provider)
                    whole = joined(present or "", content)
                    _check_length(block, whole)
                    if not is_comparing_provider(provider):
                        await maybe_await(provider.set(whole))
                    elif not await maybe_await(provider.compare_and_set(present, whole)):
                        continue
                    return self._keep(block.with_content(whole))
                raise ContextBlockError(
                    f'Block "{label}" changed at each of {APPEND_TRIES} attempts; try again later'
                )

        return await self._once(
            "append_context_block", [label, content], run, self._recalling(label)
        )

    async def set_skill(
        self, label: str, key: str, content: str, description: str | None = None
    ) -> ContextBlock:
        """Store one document of a skill block and list the block anew.

        Raises:
            ContextBlockError: The block is no skill block or takes no documents.
        """

        async def run() -> ContextBlock:
            async with self._turns.turn():
                await self._load_first()
                config = self._configs.get(label)
                if config is None or not config.is_skill:
                    raise ContextBlockError(f'Block "{label}" is not a skill provider')
                _check_keyed_writes(config)
                writer = cast("KeyedSkillWriter", config.provider)
                await maybe_await(writer.set(key, content, description))
                return await self._read_again(config, is_kept_when_null=True)

        return await self._once(
            "set_skill", [label, key, content, description], run, self._recalling(label)
        )

    async def set_search_entry(self, label: str, key: str, content: str) -> ContextBlock:
        """Store one entry of a search block and sum the block up anew.

        Raises:
            ContextBlockError: The block is no search block or takes no entries.
        """

        async def run() -> ContextBlock:
            async with self._turns.turn():
                await self._load_first()
                config = self._configs.get(label)
                if config is None or not config.is_searchable:
                    raise ContextBlockError(f'Block "{label}" is not a search provider')
                _check_keyed_writes(config)
                writer = cast("KeyedSearchWriter", config.provider)
                await maybe_await(writer.set(key, content))
                return await self._read_again(config, is_kept_when_null=False)

        return await self._once(
            "set_search_entry", [label, key, content], run, self._recalling(label)
        )

    async def load_skill(self, label: str, key: str) -> str | None:
        """Return one document of a skill block, None if there is none of that key.

        Raises:
            ContextBlockError: The block is no skill block.
        """
        await self._ensure_loaded()
        config = self._configs.get(label)
        if config is None or not config.is_skill:
            raise ContextBlockError(f'Block "{label}" is not a skill provider')
        return checked_text(
            label, await maybe_await(cast("SkillProvider", config.provider).load(key))
        )

    async def search_block(self, label: str, query: str) -> str | None:
        """Return what a search block finds, None for nothing.

        Raises:
            ContextBlockError: The block is no search block.
        """
        await self._ensure_loaded()
        config = self._configs.get(label)
        if config is None or not config.is_searchable:
            raise ContextBlockError(f'Block "{label}" is not a search provider')
        return checked_text(
            label, await maybe_await(cast("SearchContextProvider", config.provider).search(query))
        )

    async def add_context(
        self,
        label: str,
        *,
        description: str | None = None,
        max_tokens: int | None = None,
        provider: ContextProvider | None = None,
    ) -> ContextBlock:
        """Add a block at the end and read it; the frozen prompt stays as it is.

        What the provider raises comes through, and the label is free again then.

        Raises:
            ContextBlockError: A block of that label exists.
            SessionSetupError: The label is empty or `max_tokens` is negative.
        """
        config = ContextConfig(label, description, max_tokens, provider)
        async with self._turns.turn():
            await self._load_first()
            if label in self._configs:
                raise ContextBlockError(f'Block "{label}" already exists')
            block = empty_block(config).with_content(await load_content(config))
            self._configs[label] = config
            return self._keep(block)

    async def remove_context(self, label: str) -> bool:
        """Take a block out of the session; False if there is none of that label.

        What its provider stores and the frozen prompt stay as they are.
        """
        async with self._turns.turn():
            self._blocks.pop(label, None)
            return self._configs.pop(label, None) is not None

    def _recalling(self, label: str) -> Callable[[Json], Awaitable[ContextBlock]]:
        async def recall(_: Json) -> ContextBlock:
            async with self._turns.turn():
                await self._load_first()
                config = self._configs.get(label)
                if config is None:
                    raise ContextBlockError(f'Block "{label}" not found')
                return await self._read_again(config, is_kept_when_null=True)

        return recall

    async def _ensure_loaded(self) -> None:
        if not self._is_loaded:
            await self.load()

    async def _load_first(self) -> None:
        if not self._is_loaded:
            await self._load_all()

    async def _load_all(self) -> None:
        for config in self._configs.values():
            self._keep(await self._loaded(config))
        self._is_loaded = True
        self._loads += 1

    async def _loaded(self, config: ContextConfig) -> ContextBlock:
        known = self._blocks.get(config.label) or empty_block(config)
        try:
            return known.with_content(await load_content(config))
        except Exception as error:
            return _unavailable(known, error)

    async def _read_again(self, config: ContextConfig, *, is_kept_when_null: bool) -> ContextBlock:
        # The entry is stored: a listing that fails must not make the write look failed.
        block = self._blocks[config.label]
        provider = cast("ContextProvider", config.provider)
        try:
            content = await get_content(config.label, provider)
        except Exception as error:
            return self._keep(_unavailable(block, error))
        if content is None and is_kept_when_null:
            return block
        return self._keep(block.with_content(content))

    def _keep(self, block: ContextBlock) -> ContextBlock:
        self._blocks[block.label] = block
        return block

    def _plain(self, label: str) -> tuple[ContextBlock, WritableContextProvider]:
        config = self._configs.get(label)
        if config is None or not config.is_writable:
            raise ContextBlockError(f'Block "{label}" is readonly')
        if config.is_skill or config.is_searchable:
            raise ContextBlockError(
                f'Block "{label}" is a keyed provider. '
                "Use set_skill() or set_search_entry() instead."
            )
        return self._blocks[label], cast("WritableContextProvider", config.provider)


def joined(content: str, addition: str) -> str:
    """Return what appending gives: on a new line, unless there is nothing yet or it brings one."""
    separator = "\n" if content and not addition.startswith("\n") else ""
    return content + separator + addition


def _check_length(block: ContextBlock, content: str) -> None:
    tokens = estimate_string_tokens(content)
    if block.max_tokens is not None and tokens > block.max_tokens:
        raise ContextBlockError(
            f'Block "{block.label}" exceeds maxTokens: {tokens} > {block.max_tokens}'
        )


def _check_keyed_writes(config: ContextConfig) -> None:
    if not config.is_writable:
        raise ContextBlockError(f'Block "{config.label}" does not support writes')


def _unavailable(block: ContextBlock, error: Exception) -> ContextBlock:
    logger.error('the provider of context block "%s" failed: %s', block.label, describe(error))
    return replace(block, is_available=False)
