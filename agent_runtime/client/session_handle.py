"""One conversation of an agent, from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta

from agent_runtime.argument_check import as_dict, as_list, check_count
from agent_runtime.client.compaction_watch import CompactionWatch
from agent_runtime.client.session_read import SessionReader
from agent_runtime.compaction.compact_context import CompactResult
from agent_runtime.errors import InvalidRequestError
from agent_runtime.json_value import Json
from agent_runtime.session.context_block import ContextBlock
from agent_runtime.session.id_list import id_list
from agent_runtime.session.message import Message, message_json
from agent_runtime.session.parent import parent_value
from agent_runtime.session.session_provider import (
    AUTO,
    AppendResult,
    Compaction,
    HistoryPage,
    Parent,
    RecentHistory,
    RowStats,
    SearchHit,
)
from agent_runtime.session.stored_session import check_search
from agent_runtime.session.tree_node import TreeNode

MAX_TREE_PAGE = 1000

Call = Callable[[str, Sequence[Json], str | None, timedelta | None], Awaitable[Json]]


class SessionHandle:
    """One conversation of an agent, from outside; `client.agent(...).session(id)`.

    What changes it runs in the agent's own process, as the agent has set its sessions up, and is on
    disk when it returns. Each takes an `idempotency_key` for repeating it safely after an error,
    and a `timeout` to give up waiting; without one it is waited for as long as it runs.

    Reading is done straight from the storage where this process has it, else by asking the agent's
    worker.
    """

    def __init__(
        self,
        call: Call,
        reader: SessionReader,
        session_id: str,
        compaction: CompactionWatch | None = None,
    ) -> None:
        self.session_id = session_id
        self._compaction = compaction
        self._call = call
        self._reader = reader

    @property
    def compaction(self) -> CompactionWatch:
        """The summarizing that goes on: its progress, its end, and how to cancel it.

        Raises:
            InvalidRequestError: The session is reached by its storage alone, which knows of none.
        """
        if self._compaction is None:
            raise InvalidRequestError(
                "compactions are watched through Temporal or a gateway; use an AgentClient or a "
                "GatewayClient in place of a storage alone"
            )
        return self._compaction

    async def append_message(
        self,
        message: Message,
        parent_id: Parent = AUTO,
        *,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> AppendResult:
        """Store a message; see `Session.append_message`.

        Raises:
            InvalidMessageError: It is no message, or has an id kept for summaries.
            CallTimeoutError: `timeout` passed, or no worker answered; repeat it with the same key.
        """
        [result] = await self.append_messages(
            [message], parent_id, idempotency_key=idempotency_key, timeout=timeout
        )
        return result

    async def append_messages(
        self,
        messages: Sequence[Message],
        parent_id: Parent = AUTO,
        *,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> list[AppendResult]:
        """Store messages, each below the one before it, all or none.

        Raises:
            InvalidMessageError: One is no message; none was stored.
            InvalidRequestError: More than 2,000,000 bytes of JSON.
        """
        sent = as_list(messages, "messages")
        for message in sent:
            message_json(message)
        args = [sent, parent_value(parent_id)]
        results = await self._call("append_messages", args, idempotency_key, timeout)
        return [AppendResult(**result) for result in results]

    async def update_message(
        self,
        message: Message,
        *,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> bool:
        """Replace a message's content; False if there is none of its id."""
        message_json(message)
        return bool(await self._call("update_message", [message], idempotency_key, timeout))

    async def delete_messages(
        self,
        message_ids: Sequence[str],
        *,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> None:
        """Remove messages; see `Session.delete_messages`."""
        await self._call(
            "delete_messages", [id_list(message_ids, "message_ids")], idempotency_key, timeout
        )

    async def clear_messages(
        self, *, idempotency_key: str | None = None, timeout: timedelta | None = None
    ) -> None:
        """Remove all messages and summaries."""
        await self._call("clear_messages", [], idempotency_key, timeout)

    async def add_compaction(
        self,
        summary: str,
        from_message_id: str,
        to_message_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> Compaction:
        """Store a summary of your own for a range; see `Session.add_compaction`."""
        args = [summary, from_message_id, to_message_id]
        return Compaction(**await self._call("add_compaction", args, idempotency_key, timeout))

    async def compact(
        self,
        leaf_id: str | None = None,
        *,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> CompactResult | None:
        """Summarize a part of the history now; see `Session.compact`.

        It is a durable job: when this gives up waiting it goes on. `compaction.cancel()` ends it.
        """
        result = await self._call("compact", [leaf_id], idempotency_key, timeout)
        return None if result is None else CompactResult(**result)

    async def freeze_system_prompt(self, *, timeout: timedelta | None = None) -> str:
        """Return the system prompt, the same text until it is refreshed."""
        return str(await self._call("freeze_system_prompt", [], None, timeout))

    async def refresh_system_prompt(
        self, *, idempotency_key: str | None = None, timeout: timedelta | None = None
    ) -> str:
        """Make the prompt anew from the blocks as they are now and return it."""
        return str(await self._call("refresh_system_prompt", [], idempotency_key, timeout))

    async def get_context_blocks(self, *, timeout: timedelta | None = None) -> list[ContextBlock]:
        """Return all context blocks in order."""
        blocks = await self._call("get_context_blocks", [], None, timeout)
        return [ContextBlock(**block) for block in blocks]

    async def replace_context_block(
        self,
        label: str,
        content: str,
        *,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> ContextBlock:
        """Replace a writable block's content; see `Session.replace_context_block`."""
        args = [label, content]
        block = await self._call("replace_context_block", args, idempotency_key, timeout)
        return ContextBlock(**block)

    async def append_context_block(
        self,
        label: str,
        content: str,
        *,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> ContextBlock:
        """Add a line to a writable block's content."""
        args = [label, content]
        block = await self._call("append_context_block", args, idempotency_key, timeout)
        return ContextBlock(**block)

    async def list_tools(self, *, timeout: timedelta | None = None) -> list[dict[str, Json]]:
        """Return name, description and JSON schema of the session's tools."""
        tools: list[dict[str, Json]] = await self._call("tools", [], None, timeout)
        return tools

    async def run_tool(
        self,
        name: str,
        arguments: Mapping[str, Json],
        *,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> str:
        """Run one of the session's tools as a model asked for it."""
        args = [name, as_dict(arguments, "arguments")]
        return str(await self._call("run_tool", args, idempotency_key, timeout))

    async def estimate_tokens(
        self, leaf_id: str | None = None, *, timeout: timedelta | None = None
    ) -> int:
        """Return the token estimate of the visible history with the prompt."""
        return int(await self._call("estimate_tokens", [leaf_id], None, timeout))

    async def get_history(self, leaf_id: str | None = None) -> list[Message]:
        """Return the path to a message, with summaries for compacted ranges."""
        return await self._reader.get_history(leaf_id)

    async def get_history_page(
        self, max_content_bytes: int, *, leaf_id: str | None = None
    ) -> HistoryPage:
        """Return the end of what `get_history` does, for histories that are too long for memory.

        The part above is read with the page's `earlier_leaf_id` as the leaf, until that is None.

        Args:
            max_content_bytes: At most so many of stored JSON and summaries, but one item at least;
                more than 2,000,000 may give less.
            leaf_id: By default the latest leaf's path.
        """
        check_count(max_content_bytes, "max_content_bytes")
        return await self._reader.get_history_page(max_content_bytes, leaf_id)

    async def get_message(self, message_id: str) -> Message | None:
        """Return a stored message, on any branch, or None."""
        return await self._reader.get_message(message_id)

    async def get_latest_leaf(self) -> Message | None:
        """Return the newest message without children, or None."""
        return await self._reader.get_latest_leaf()

    async def get_branches(self, message_id: str) -> list[Message]:
        """Return a message's direct children, oldest first."""
        return await self._reader.get_branches(message_id)

    async def get_path_length(self, leaf_id: str | None = None) -> int:
        """Return how many stored messages the path has."""
        return await self._reader.get_path_length(leaf_id)

    async def get_recent_history(
        self,
        max_content_bytes: int,
        min_recent_messages: float = 1,
        *,
        leaf_id: str | None = None,
    ) -> RecentHistory:
        """Return the newest messages of a path that fit a budget; by default the active path's."""
        check_count(max_content_bytes, "max_content_bytes")
        return await self._reader.get_recent_history(
            leaf_id, max_content_bytes, min_recent_messages
        )

    async def get_history_row_stats(self, leaf_id: str | None = None) -> list[RowStats]:
        """Return the stored sizes along a path."""
        return await self._reader.get_history_row_stats(leaf_id)

    async def get_compactions(self) -> list[Compaction]:
        """Return all stored summaries, oldest first."""
        return await self._reader.get_compactions()

    async def get_tree(self, *, after: int = 0, limit: int = 1000) -> list[TreeNode]:
        """Return messages of all branches, oldest first, with their places in the tree.

        Args:
            after: Only those with a higher `seq`: the last one's of the page before, to read on.
            limit: At most so many, 1 to 1,000.

        Raises:
            InvalidRequestError: `limit` is out of range.
        """
        check_count(limit, "limit", 1, MAX_TREE_PAGE)
        return await self._reader.get_tree(after, limit)

    async def search(self, query: str, limit: int = 20) -> list[SearchHit]:
        """Return the session's messages that hold every word of the query, best first.

        Raises:
            InvalidSearchError: `limit` is not 1 to 1000.
        """
        check_search(query, limit)
        return await self._reader.search_messages(query, limit)
