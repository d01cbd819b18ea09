"""One of an agent's conversations, over a gateway's HTTP API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from agent_runtime.compaction.compact_context import CompactResult
from agent_runtime.errors import InvalidRequestError, UnknownMessageError
from agent_runtime.gateway_client.gateway_compaction import GatewayCompaction
from agent_runtime.gateway_client.gateway_http import GatewayHttp
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.session.context_block import ContextBlock
from agent_runtime.session.message import Message
from agent_runtime.session.session_json import fields_of, from_wire
from agent_runtime.session.session_provider import (
    AppendResult,
    Compaction,
    HistoryPage,
    RecentHistory,
    RowStats,
    SearchHit,
)
from agent_runtime.session.session_segment import path_segment, session_segment
from agent_runtime.session.stored_session import least_recent
from agent_runtime.session.tree_node import TreeNode

_MAX_MESSAGES = 1_000_000
_MAX_BYTES = 10**17

Send = Callable[[str, str, Json], Awaitable[Json]]
"""Sends a request: its HTTP method, the path in the session, the body; of those that have none, GET
and DELETE, the query instead."""


class GatewaySession:
    """What a `SessionHandle` calls and reads with, in requests."""

    def __init__(self, http: GatewayHttp, ref: AgentRef, session_id: str) -> None:
        self._http = http
        agent = f"{path_segment(ref.class_name)}/{path_segment(ref.name)}"
        self._place = f"/{agent}/sessions/{session_segment(session_id)}"
        self.compaction = GatewayCompaction(http, self._place)

    async def call(
        self, method: str, args: Sequence[Json], key: str | None, timeout: timedelta | None
    ) -> Json:
        """Run one of `SESSION_METHODS` and return what it returns."""

        async def send(verb: str, path: str, body: Json = None) -> Json:
            place = self._place + path
            if verb == "GET":
                return await self._http.get(place, body or (), timeout=timeout)
            query = body if verb == "DELETE" else ()
            return await self._http.change(
                verb,
                place,
                None if verb == "DELETE" else body,
                query=query,
                idempotency_key=key,
                timeout=timeout,
            )

        return await _CALLS[method](send, args)

    async def get_history(self, leaf_id: str | None = None) -> list[Message]:
        """See `SessionReader.get_history`; pages of one path, whatever is appended meanwhile."""
        page: Json = await self._get("/messages", leaf=leaf_id)
        messages: list[Message] = page["messages"]
        while page["next"] is not None:
            earlier = page["next"]
            page = await self._get("/messages", leaf=earlier)
            if not page["messages"] and await self.get_message(earlier) is None:
                return await self.get_history(leaf_id)  # it was removed in between
            messages = page["messages"] + messages
        return messages

    async def get_history_page(
        self, max_content_bytes: int, leaf_id: str | None = None
    ) -> HistoryPage:
        """See `SessionReader.get_history_page`."""
        size = str(min(max(max_content_bytes, 0), _MAX_BYTES))
        found = await self._get("/messages", leaf=leaf_id, page_bytes=size)
        return HistoryPage(found["messages"], found["next"])

    async def get_message(self, message_id: str) -> Message | None:
        """See `SessionReader.get_message`."""
        try:
            found: Message = await self._get(f"/messages/{path_segment(message_id)}")
        except UnknownMessageError:
            return None
        return found

    async def get_latest_leaf(self) -> Message | None:
        """See `SessionReader.get_latest_leaf`."""
        latest = (await self._get("", estimate="false"))["latestLeafId"]
        return None if latest is None else await self.get_message(latest)

    async def get_branches(self, message_id: str) -> list[Message]:
        """See `SessionReader.get_branches`."""
        return await self._all(f"/messages/{path_segment(message_id)}/branches", "messages")

    async def get_path_length(self, leaf_id: str | None = None) -> int:
        """See `SessionReader.get_path_length`."""
        return int((await self._get("", estimate="false", leaf=leaf_id))["pathLength"])

    async def get_recent_history(
        self, leaf_id: str | None, max_content_bytes: int, min_recent_messages: float = 1
    ) -> RecentHistory:
        """See `SessionReader.get_recent_history`; at most 8,000,000 bytes."""
        budget = min(max(max_content_bytes, 0), _MAX_BYTES)
        least = min(least_recent(min_recent_messages), _MAX_MESSAGES)
        found = await self._get(
            "/messages", leaf=leaf_id, max_bytes=str(budget), min_messages=str(least)
        )
        return from_wire(RecentHistory, found)

    async def get_history_row_stats(self, leaf_id: str | None = None) -> list[RowStats]:
        """See `SessionReader.get_history_row_stats`."""
        page: Json = await self._get("/path", leaf=leaf_id)
        rows: list[Json] = page["rows"]
        while page["next"] is not None:
            page = await self._get("/path", leaf=page["next"])
            if not page["rows"]:
                return await self.get_history_row_stats(leaf_id)  # it was removed in between
            rows = page["rows"] + rows
        return [from_wire(RowStats, row) for row in rows]

    async def get_compactions(self) -> list[Compaction]:
        """See `SessionReader.get_compactions`."""
        rows = await self._all("/compactions", "compactions")
        return [from_wire(Compaction, row) for row in rows]

    async def get_tree(self, after: int = 0, limit: int = 1000) -> list[TreeNode]:
        """See `SessionReader.get_tree`."""
        nodes: list[TreeNode] = []
        following: int | None = after
        while following is not None and len(nodes) < limit:
            size = limit - len(nodes)
            page = await self._get("/tree", after=str(following), limit=str(size))
            nodes += [from_wire(TreeNode, row) for row in page["nodes"]]
            following = page["next"]
        return nodes

    async def search_messages(self, query: str, limit: int = 20) -> list[SearchHit]:
        """See `SessionReader.search_messages`."""
        found = await self._get("/search", q=query, limit=str(limit))
        return [from_wire(SearchHit, row) for row in found["hits"]]

    async def _all(self, path: str, name: str) -> list[Json]:
        page = await self._get(path)
        items: list[Json] = page[name]
        while page["next"] is not None:
            page = await self._get(path, after=page["next"])
            items += page[name]
        return items

    async def _get(self, path: str, **query: str | None) -> Json:
        given = [(name, text) for name, text in query.items() if text is not None]
        return await self._http.get(self._place + path, given)


_Call = Callable[[Send, Sequence[Json]], Awaitable[Json]]


async def _append_messages(send: Send, args: Sequence[Json]) -> Json:
    messages, parent = args
    # An object stands for the latest leaf, see `parent_value`.
    body = {"messages": messages} | ({} if isinstance(parent, dict) else {"parentId": parent})
    results = (await send("POST", "/messages", body))["results"]
    return [fields_of(AppendResult, result) for result in results]


async def _update_message(send: Send, args: Sequence[Json]) -> Json:
    [message] = args
    try:
        await send("PUT", f"/messages/{path_segment(message['id'])}", message)
    except UnknownMessageError:
        return False
    return True


async def _delete_messages(send: Send, args: Sequence[Json]) -> Json:
    [message_ids] = args
    if message_ids:
        await send("POST", "/deletions", {"messageIds": message_ids})


async def _clear_messages(send: Send, args: Sequence[Json]) -> Json:
    await send("DELETE", "/messages", [("all", "true")])


async def _add_compaction(send: Send, args: Sequence[Json]) -> Json:
    names = ("summary", "fromMessageId", "toMessageId")
    body = dict(zip(names, args, strict=True))
    return fields_of(Compaction, await send("POST", "/compactions", body))


async def _compact(send: Send, args: Sequence[Json]) -> Json:
    [leaf_id] = args
    result = (await send("POST", "/compact", {"leafId": leaf_id}))["compaction"]
    return None if result is None else fields_of(CompactResult, result)


async def _freeze_system_prompt(send: Send, args: Sequence[Json]) -> Json:
    return (await send("POST", "/prompt?refresh=false", None))["prompt"]


async def _refresh_system_prompt(send: Send, args: Sequence[Json]) -> Json:
    return (await send("POST", "/prompt", None))["prompt"]


async def _get_context_blocks(send: Send, args: Sequence[Json]) -> Json:
    blocks = (await send("GET", "/context", None))["blocks"]
    return [fields_of(ContextBlock, block) for block in blocks]


async def _replace_context_block(send: Send, args: Sequence[Json]) -> Json:
    label, content = args
    block = await send("PUT", f"/context/{path_segment(label)}", {"content": content})
    return fields_of(ContextBlock, block)


async def _append_context_block(send: Send, args: Sequence[Json]) -> Json:
    label, content = args
    block = await send("POST", f"/context/{path_segment(label)}", {"content": content})
    return fields_of(ContextBlock, block)


async def _estimate_tokens(send: Send, args: Sequence[Json]) -> Json:
    [leaf_id] = args
    query = [] if leaf_id is None else [("leaf", leaf_id)]
    estimate = (await send("GET", "", query))["tokenEstimate"]
    if estimate is None:
        raise InvalidRequestError(
            "there is no such agent yet, which alone can tell; change something first"
        )
    return estimate


async def _tools(send: Send, args: Sequence[Json]) -> Json:
    return (await send("GET", "/tools", None))["tools"]


async def _run_tool(send: Send, args: Sequence[Json]) -> Json:
    name, arguments = args
    answer = await send("POST", f"/tools/{path_segment(name)}", {"arguments": arguments})
    return answer["result"]


_CALLS: dict[str, _Call] = {
    "append_messages": _append_messages,
    "update_message": _update_message,
    "delete_messages": _delete_messages,
    "clear_messages": _clear_messages,
    "add_compaction": _add_compaction,
    "compact": _compact,
    "freeze_system_prompt": _freeze_system_prompt,
    "refresh_system_prompt": _refresh_system_prompt,
    "get_context_blocks": _get_context_blocks,
    "replace_context_block": _replace_context_block,
    "append_context_block": _append_context_block,
    "estimate_tokens": _estimate_tokens,
    "tools": _tools,
    "run_tool": _run_tool,
}
