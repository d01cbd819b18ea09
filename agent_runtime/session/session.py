"""One conversation: its message tree, context blocks, frozen prompt, tools and compaction."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from agent_runtime.compaction.compact_context import CompactResult
from agent_runtime.errors import (
    ContextBlockError,
    SessionSetupError,
)
from agent_runtime.json_value import Json, to_json
from agent_runtime.session.context_block import ContextBlock
from agent_runtime.session.context_provider import ContextProvider
from agent_runtime.session.given_text import given_leaf, given_text
from agent_runtime.session.id_list import id_list
from agent_runtime.session.maybe_await import maybe_await
from agent_runtime.session.message import Message, message_json
from agent_runtime.session.parent import parent_value
from agent_runtime.session.provider_operations import append_all, check_ends, upsert
from agent_runtime.session.session_builder import SessionBuilder
from agent_runtime.session.session_events import (
    MessageAppended,
    MessagesCleared,
    MessagesDeleted,
    MessageUpdated,
)
from agent_runtime.session.session_provider import (
    AUTO,
    AppendResult,
    Compaction,
    Parent,
    RecentHistory,
    RecentHistoryProvider,
    RowStats,
    RowStatsProvider,
    SearchableProvider,
    SearchHit,
)
from agent_runtime.session.stored_session import check_search, iso_time
from agent_runtime.session.tool import Tool
from agent_runtime.session.tools import session_tools

logger = logging.getLogger("agent_runtime")


class Session(SessionBuilder):
    """One conversation over a store of messages (contract 3 to 18).

    Make it with `Session.create(agent)` and set it up by chaining; what the chain builds is made at
    the first use. All that lasts is in the store: another object over the same session, in
    whatever process, sees and continues the same conversation.

    Args:
        provider: A message store of your own; for an agent or session store use `create`.
        context: Context blocks.
        prompt_store: Where the frozen prompt is kept.
        token_counter: Counts the whole session instead of the default estimate.
        on_compaction_error: Told of automatic compactions that fail.
    """

    async def get_history(self, leaf_id: str | None = None) -> list[Message]:
        """Return the path to a message, root first, with summaries for compacted ranges.

        Args:
            leaf_id: Any message; by default the latest leaf. An unknown one gives an empty list.
        """
        return await maybe_await((await self._ready()).provider.get_history(leaf_id))

    async def get_message(self, message_id: str) -> Message | None:
        """Return a stored message, on any branch and under summaries too, or None."""
        return await maybe_await((await self._ready()).provider.get_message(message_id))

    async def get_latest_leaf(self) -> Message | None:
        """Return the newest message without children, None in an empty session."""
        return await maybe_await((await self._ready()).provider.get_latest_leaf())

    async def get_branches(self, message_id: str) -> list[Message]:
        """Return a message's direct children, oldest first."""
        return await maybe_await((await self._ready()).provider.get_branches(message_id))

    async def get_path_length(self, leaf_id: str | None = None) -> int:
        """Return how many stored messages the path has, those under summaries too."""
        return await maybe_await((await self._ready()).provider.get_path_length(leaf_id))

    async def get_recent_history(
        self, max_content_bytes: int, min_recent_messages: float = 1
    ) -> RecentHistory:
        """Return the newest messages of the active path that fit a budget (contract 5.3).

        A store that cannot read a part of a path gives all of it, with one warning.

        Args:
            max_content_bytes: Of stored JSON.
            min_recent_messages: So many are returned whatever their size, the last one always.
        """
        provider = (await self._ready()).provider
        if isinstance(provider, RecentHistoryProvider):
            return await maybe_await(
                provider.get_recent_history(None, max_content_bytes, min_recent_messages)
            )
        if not self._has_warned_of_budget:
            self._has_warned_of_budget = True
            logger.warning("the session's store cannot read a part of a history; all is read")
        messages = await maybe_await(provider.get_history())
        return RecentHistory(messages, False, sum(len(to_json(each)) for each in messages))

    async def get_history_row_stats(self, leaf_id: str | None = None) -> list[RowStats] | None:
        """Return the stored sizes along a path, None if the store does not tell."""
        provider = (await self._ready()).provider
        if not isinstance(provider, RowStatsProvider):
            return None
        return await maybe_await(provider.get_history_row_stats(leaf_id))

    async def append_message(
        self, message: Message, parent_id: Parent = AUTO
    ) -> AppendResult | None:
        """Store a message; it becomes the latest leaf (contract 4.1, 9.2).

        A message whose id is there already changes nothing. Appending below an older message
        switches the active path to that branch. If the session has grown past its threshold it is
        compacted before this returns; the message is stored whatever becomes of that.

        Args:
            parent_id: A message's id, None for a new root; by default the latest leaf.

        Returns:
            What was done; None if a store of your own does not tell.

        Raises:
            InvalidMessageError: It is no message, or has an id kept for summaries.
            NotSerializableError: A value in it is not JSON.
        """
        [result] = await self._append([message], parent_id)
        return result

    async def append_messages(
        self, messages: Sequence[Message], parent_id: Parent = AUTO
    ) -> list[AppendResult | None]:
        """Store messages, each below the one before it, with one status frame (contract 19.3).

        In one transaction, unless the message store is one of your own.

        Raises:
            InvalidMessageError: One is no message; none was stored.
        """
        return await self._append(list(messages), parent_id) if messages else []

    async def update_message(self, message: Message) -> bool | None:
        """Replace a stored message's content; its place in the tree stays (contract 4.4).

        Returns:
            False if there is none of its id; nothing is stored then.

        Raises:
            InvalidMessageError: It is no message.
        """
        return await self._update(message, is_maintenance=False)

    async def upsert_message(self, message: Message, parent_id: Parent = AUTO) -> bool:
        """Replace a message where it is, or append it if its id is unknown (contract 19.3).

        In one transaction, unless the message store is one of your own: what others append or
        delete at the same time comes before it or after it, and nothing of it is lost. An append
        may compact, like `append_message`.

        Args:
            parent_id: Of a message that is appended; see `append_message`.

        Returns:
            Whether it was appended.

        Raises:
            InvalidMessageError: It is no message, or has an id kept for summaries.
        """
        parts = await self._ready()
        asked = [message_json(message).decode(), parent_value(parent_id)]

        async def run() -> bool:
            marked = parts.skills.with_markers(message)
            is_appended = await upsert(parts.provider, marked, parent_id)
            if is_appended:
                await self._show_appended([marked], [True], parent_id)
            else:
                parts.skills.note_stored(marked)
                await self._show_rewritten(marked)
            return is_appended

        async def recall(recorded: Json) -> bool:
            # What was cut off may have been a compaction, which clients still see under way.
            await self._compactor.show_status()
            return bool(recorded[0])

        return await parts.once("upsert_message", asked, run, recall)

    async def internal_rewrite_message(self, message: Message) -> bool | None:
        """Replace a message in bulk maintenance: no status frame, no estimate (contract 10.3)."""
        return await self._update(message, is_maintenance=True)

    async def delete_messages(self, message_ids: Sequence[str]) -> None:
        """Remove messages; the children of each go to its nearest surviving ancestor.

        Unknown ids are ignored. Summaries whose range loses an end shrink with it (contract 4.5).

        Raises:
            InvalidRequestError: `message_ids` is one text, or not all of them are texts.
        """
        parts = await self._ready()
        ids = id_list(message_ids, "message_ids")

        async def run() -> None:
            await maybe_await(parts.provider.delete_messages(ids))
            await self._compactor.show_status()
            await self._events.emit(MessagesDeleted(tuple(ids)))

        await parts.once("delete_messages", list[Json](ids), run, _nothing)

    async def clear_messages(self) -> None:
        """Remove all messages and summaries, forget loaded skills, and refresh the prompt.

        The prompt comes first: an error of the store that keeps it leaves all messages there.
        """
        parts = await self._ready()

        async def run() -> None:
            # What can fail comes before what cannot be taken back.
            await parts.prompt.refresh_system_prompt()
            await self._compactor.forget_failures()
            await maybe_await(parts.provider.clear_messages())
            parts.skills.clear()
            await self._compactor.show_status()
            await self._events.emit(MessagesCleared())

        await parts.once("clear_messages", None, run, _nothing)

    async def search(self, query: str, limit: int = 20) -> list[SearchHit]:
        """Return the session's messages that hold every word of the query, best first.

        A query without words finds nothing; no character in it has a special meaning.

        Raises:
            InvalidSearchError: `limit` is not 1 to 1000.
            SessionSetupError: The message store has no search.
        """
        provider = (await self._ready()).provider
        if not isinstance(provider, SearchableProvider):
            raise SessionSetupError("Session provider does not support search")
        check_search(query, limit)
        return await maybe_await(provider.search_messages(query, limit))

    async def compact(self, leaf_id: str | None = None) -> CompactResult | None:
        """Summarize a part of the history now; the messages themselves stay (contract 9.1).

        Returns:
            The stored summary with its range, None if nothing was stored: the function returned
            nothing, failed, or named a range that does not fit.

        Raises:
            SessionSetupError: No compaction function is registered.
            InvalidRequestError: `leaf_id` can be no message's id.
        """
        parts = await self._ready()
        leaf_id = given_leaf(leaf_id)

        async def run() -> CompactResult | None:
            return await self._compactor.compact(leaf_id)

        async def recall(recorded: Json) -> CompactResult | None:
            return await self._compactor.recall(recorded)

        return await parts.once("compact", leaf_id, run, recall)

    async def add_compaction(
        self, summary: str, from_message_id: str, to_message_id: str
    ) -> Compaction:
        """Store a summary of your own for a range (contract 6.4).

        Raises:
            InvalidCompactionError: An end is a summary itself, or no path leads from the first to
                the last message.
            UnknownMessageError: An end does not exist in this session.
            InvalidRequestError: An argument is no text.
        """
        given_text(summary, "summary")
        given_text(from_message_id, "from_message_id")
        given_text(to_message_id, "to_message_id")
        parts = await self._ready()
        provider = parts.provider

        async def run() -> Compaction:
            await check_ends(provider, from_message_id, to_message_id)
            return await maybe_await(
                provider.add_compaction(summary, from_message_id, to_message_id)
            )

        async def recall(recorded: Json) -> Compaction:
            overlay_id, created_at = recorded
            at = iso_time(created_at)
            return Compaction(overlay_id, summary, from_message_id, to_message_id, at)

        asked: Json = [summary, from_message_id, to_message_id]
        return await parts.once("add_compaction", asked, run, recall)

    async def get_compactions(self) -> list[Compaction]:
        """Return all stored summaries, superseded ones too, oldest first."""
        return await maybe_await((await self._ready()).provider.get_compactions())

    async def estimate_tokens(self, leaf_id: str | None = None) -> int:
        """Return the token estimate of the visible history with the prompt."""
        await self._ready()
        return await self._compactor.estimate(leaf_id)

    async def add_context(
        self,
        label: str,
        *,
        description: str | None = None,
        max_tokens: int | None = None,
        provider: ContextProvider | None = None,
    ) -> ContextBlock:
        """Add a context block to a session in use; the prompt changes at its next refresh.

        Raises:
            ContextBlockError: There is one of that label, or the session's store is one of your own
                and no provider was given.
        """
        parts = await self._ready()
        if parts.own_provider is not None:
            provider = parts.own_provider(label, provider)
        elif provider is None:
            raise ContextBlockError(
                f'addContext("{label}") requires an explicit provider when Session uses a '
                "SessionProvider"
            )
        block = await parts.blocks.add_context(
            label, description=description, max_tokens=max_tokens, provider=provider
        )
        await parts.skills.restore()
        return block

    async def remove_context(self, label: str) -> bool:
        """Drop a context block; what it holds stays stored. False if there is none."""
        parts = await self._ready()
        is_removed = await parts.blocks.remove_context(label)
        parts.skills.forget_block(label)
        return is_removed

    async def get_context_block(self, label: str) -> ContextBlock | None:
        """Return a block as it was last read, loading all at first; None if there is none."""
        return await (await self._ready()).blocks.get_context_block(label)

    async def get_context_blocks(self) -> list[ContextBlock]:
        """Return all blocks in order, loading them at first."""
        return await (await self._ready()).blocks.get_context_blocks()

    async def replace_context_block(self, label: str, content: str) -> ContextBlock:
        """Replace a writable block's content; the frozen prompt stays (contract 11.4).

        Raises:
            ContextBlockError: It is read-only, unknown, holds keyed entries, or is too long.
        """
        return await (await self._ready()).blocks.replace_context_block(label, content)

    async def append_context_block(self, label: str, content: str) -> ContextBlock:
        """Add a line to a writable block's content, losing nothing that others add.

        Raises:
            ContextBlockError: It is read-only, unknown, holds keyed entries, or is too long.
        """
        return await (await self._ready()).blocks.append_context_block(label, content)

    async def freeze_system_prompt(self) -> str:
        """Return the system prompt, the same text until it is refreshed (contract 13.1)."""
        return await (await self._ready()).prompt.freeze_system_prompt()

    async def refresh_system_prompt(self) -> str:
        """Make the prompt anew from the blocks as they are now and return it."""
        return await (await self._ready()).prompt.refresh_system_prompt()

    async def tools(self) -> dict[str, Tool]:
        """Return the tools that the session's blocks call for, by name (contract 14)."""
        parts = await self._ready()
        return await session_tools(parts.blocks, parts.skills)

    async def unload_skill(self, label: str, key: str) -> bool:
        """Take a loaded skill's text out of the history; False if it is not loaded."""
        return await (await self._ready()).skills.unload_skill(label, key)

    async def get_loaded_skill_keys(self) -> set[str]:
        """Return the loaded skills as `label:key`."""
        return (await self._ready()).skills.get_loaded_skill_keys()

    async def _append(
        self, messages: list[Message], parent_id: Parent
    ) -> list[AppendResult | None]:
        parts = await self._ready()
        contents = [message_json(message).decode() for message in messages]

        async def run() -> list[AppendResult | None]:
            marked = parts.skills.all_with_markers(messages)
            results = await append_all(parts.provider, marked, parent_id)
            inserted = [result is None or result.is_inserted for result in results]
            await self._show_appended(marked, inserted, parent_id)
            return results

        async def recall(recorded: Json) -> list[AppendResult | None]:
            # What was cut off may have been a compaction, which clients still see under way.
            await self._compactor.show_status()
            return [AppendResult(*result) for result in recorded]

        asked = [contents, parent_value(parent_id)]
        return await parts.once("append_message", asked, run, recall)

    async def _show_appended(
        self, messages: Sequence[Message], inserted: Sequence[bool], parent_id: Parent
    ) -> None:
        """Tell of messages that are stored, and compact if that is due."""
        skills = self._use().skills
        for message, is_inserted in zip(messages, inserted, strict=True):
            if is_inserted:
                skills.note_stored(message)
        estimate = await self._compactor.show_status()
        if any(inserted) and await self._compactor.after_append(estimate):
            return
        parent = parent_id
        for message, is_inserted in zip(messages, inserted, strict=True):
            await self._events.emit(MessageAppended(message, is_inserted, parent))
            parent = message["id"]

    async def _update(self, message: Message, *, is_maintenance: bool) -> bool | None:
        parts = await self._ready()
        content = message_json(message).decode()

        async def run() -> bool | None:
            marked = parts.skills.with_markers(message)
            is_updated = await maybe_await(parts.provider.update_message(marked))
            if is_updated is not False:
                parts.skills.note_stored(marked)
            if is_maintenance:
                await self._events.emit(MessageUpdated(marked))
            else:
                await self._show_rewritten(marked)
            return is_updated

        async def recall(recorded: Json) -> bool | None:
            return bool(recorded[0])

        return await parts.once("update_message", content, run, recall)


async def _nothing(recorded: Json) -> None:
    """Recall an operation that returns nothing."""
