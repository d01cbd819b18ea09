"""An agent's conversations over plain HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from agent_runtime.client.handle import AgentHandle
from agent_runtime.client.session_handle import MAX_TREE_PAGE, SessionHandle
from agent_runtime.errors import InvalidRequestError, UnknownMessageError
from agent_runtime.gateway.access import is_readonly
from agent_runtime.gateway.bounded_answer import MAX_ANSWER_BYTES, fitting, listed, read_page
from agent_runtime.gateway.problems import problem
from agent_runtime.gateway.request_parts import (
    Handler,
    Params,
    body_fields,
    json_answer,
    query_flag,
    query_number,
    request_key,
    search_terms,
    sized_body,
    text_field,
)
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.session.parent import AUTO
from agent_runtime.session.session_json import all_to_wire, to_wire
from agent_runtime.session.session_provider import Parent
from agent_runtime.session.session_segment import session_id_of
from agent_runtime.session.tree_node import TreeNode

SESSIONS = "/api/agents/{agent}/{name}/sessions"
SESSION = f"{SESSIONS}/{{session}}"

MAX_LISTED = 1000
MAX_ROWS = 10_000

_MAX_MESSAGES = 1_000_000


class SessionRoutes:
    """Serves what is below one of an agent's sessions.

    Args:
        agent_of: Returns the agent that a path names.
        has_agent: Tells whether there is such an agent; calls to one that is not would make it.
    """

    def __init__(
        self,
        agent_of: Callable[[Params], AgentHandle],
        has_agent: Callable[[AgentRef], Awaitable[bool]],
    ) -> None:
        self._agent_of = agent_of
        self._has_agent = has_agent
        self.endpoints: dict[str, dict[str, Handler]] = {
            SESSION: {"GET": self._get_status, "DELETE": self._delete},
            f"{SESSION}/messages": {
                "GET": self._get_history,
                "POST": self._append_messages,
                "DELETE": self._delete_messages,
            },
            f"{SESSION}/messages/{{message}}": {
                "GET": self._get_message,
                "PUT": self._update_message,
                "DELETE": self._delete_message,
            },
            f"{SESSION}/messages/{{message}}/branches": {"GET": self._get_branches},
            f"{SESSION}/deletions": {"POST": self._delete_many},
            f"{SESSION}/path": {"GET": self._get_path},
            f"{SESSION}/tree": {"GET": self._get_tree},
            f"{SESSION}/search": {"GET": self._search},
            f"{SESSION}/compactions": {
                "GET": self._get_compactions,
                "POST": self._add_compaction,
            },
            f"{SESSION}/context": {"GET": self._of_agent(self._get_blocks)},
            f"{SESSION}/context/{{label}}": {
                "GET": self._of_agent(self._get_block),
                "PUT": self._replace_block,
                "POST": self._append_block,
            },
            f"{SESSION}/prompt": {"GET": self._freeze_prompt, "POST": self._refresh_prompt},
            f"{SESSION}/tools": {"GET": self._of_agent(self._get_tools)},
            f"{SESSION}/tools/{{tool}}": {"POST": self._run_tool},
        }

    async def _get_status(self, request: Request, params: Params) -> Response:
        session = self._session(params)
        leaf = request.query_params.get("leaf")
        has_estimate = query_flag(request, "estimate", True) and await self._has_agent(
            self._agent_of(params).ref
        )
        latest = await session.get_latest_leaf()
        return json_answer(
            {
                "sessionId": session.session_id,
                "latestLeafId": None if latest is None else latest["id"],
                "pathLength": await session.get_path_length(leaf),
                "tokenEstimate": await session.estimate_tokens(leaf) if has_estimate else None,
            }
        )

    async def _delete(self, request: Request, params: Params) -> Response:
        sessions, session_id = self._agent_of(params).sessions(), session_id_of(params["session"])
        await sessions.delete(session_id, idempotency_key=request_key(request))
        return Response(status_code=204)

    async def _get_history(self, request: Request, params: Params) -> Response:
        session, leaf = self._session(params), request.query_params.get("leaf")
        least = query_number(request, "min_messages", 1, least=1, most=_MAX_MESSAGES)
        if "max_bytes" in request.query_params:
            budget = min(query_number(request, "max_bytes", 0), MAX_ANSWER_BYTES)
            floor = await _affordable(session, leaf, least)
            return json_answer(
                to_wire(await session.get_recent_history(budget, floor, leaf_id=leaf))
            )
        size = query_number(request, "page_bytes", MAX_ANSWER_BYTES)
        page = await session.get_history_page(min(size, MAX_ANSWER_BYTES), leaf_id=leaf)
        return json_answer({"messages": page.messages, "next": page.earlier_leaf_id})

    async def _append_messages(self, request: Request, params: Params) -> Response:
        session = self._session(params)
        fields = await body_fields(request, ("messages",), ("parentId",))
        messages, parent = fields["messages"], _parent(fields)
        if not isinstance(messages, list):
            raise InvalidRequestError("messages is a list of messages")
        results = await session.append_messages(
            messages, parent, idempotency_key=request_key(request)
        )
        return json_answer({"results": all_to_wire(results)})

    async def _delete_messages(self, request: Request, params: Params) -> Response:
        session, ids = self._session(params), request.query_params.getlist("id")
        is_all = request.query_params.get("all")
        if (is_all == "true") == bool(ids) or is_all not in (None, "true"):
            raise InvalidRequestError(
                "say which messages to remove: id=... for each of them, or all=true"
            )
        if is_all:
            await session.clear_messages(idempotency_key=request_key(request))
        else:
            await session.delete_messages(ids, idempotency_key=request_key(request))
        return Response(status_code=204)

    async def _delete_many(self, request: Request, params: Params) -> Response:
        session, fields = self._session(params), await body_fields(request, ("messageIds",))
        ids = fields["messageIds"]
        if not isinstance(ids, list):
            raise InvalidRequestError("messageIds is a list of ids")
        await session.delete_messages(ids, idempotency_key=request_key(request))
        return Response(status_code=204)

    async def _get_message(self, request: Request, params: Params) -> Response:
        found = await self._session(params).get_message(params["message"])
        if found is None:
            raise _unknown_message(params, "")
        return json_answer(found)

    async def _update_message(self, request: Request, params: Params) -> Response:
        session, message = self._session(params), await sized_body(request)
        if isinstance(message, dict) and message.get("id") != params["message"]:
            raise InvalidRequestError("the message's id is not that of the path")
        if not await session.update_message(message, idempotency_key=request_key(request)):
            raise _unknown_message(params, "; nothing was stored")
        return json_answer({"updated": True})

    async def _delete_message(self, request: Request, params: Params) -> Response:
        session = self._session(params)
        await session.delete_messages([params["message"]], idempotency_key=request_key(request))
        return Response(status_code=204)

    async def _get_branches(self, request: Request, params: Params) -> Response:
        limit, after = _page_of(request)
        found = await self._session(params).get_branches(params["message"])
        shown, following = listed(
            found, after, limit, lambda each: str(each["id"]), lambda each: each
        )
        return json_answer({"messages": shown, "next": following})

    async def _get_path(self, request: Request, params: Params) -> Response:
        leaf = request.query_params.get("leaf")
        limit = query_number(request, "limit", MAX_ROWS, least=1, most=MAX_ROWS)
        rows = await self._session(params).get_history_row_stats(leaf)
        newest = fitting(all_to_wire(rows[: -limit - 1 : -1]))
        rest = len(rows) - len(newest)
        return json_answer({"rows": newest[::-1], "next": rows[rest - 1].id if rest else None})

    async def _get_tree(self, request: Request, params: Params) -> Response:
        session = self._session(params)
        limit = query_number(request, "limit", 100, least=1, most=MAX_TREE_PAGE)
        after = query_number(request, "after", 0)

        async def read(after: int, count: int) -> Sequence[TreeNode]:
            return await session.get_tree(after=after, limit=count)

        # A full page may be the last one; then the next is empty.
        nodes, following = await read_page(read, after, limit, lambda node: node.seq, to_wire)
        return json_answer({"nodes": nodes, "next": following})

    async def _search(self, request: Request, params: Params) -> Response:
        hits = await self._session(params).search(*search_terms(request))
        return json_answer({"hits": fitting(all_to_wire(hits))})

    async def _get_compactions(self, request: Request, params: Params) -> Response:
        limit, after = _page_of(request)
        found = await self._session(params).get_compactions()
        shown, following = listed(found, after, limit, lambda each: each.id, to_wire)
        return json_answer({"compactions": shown, "next": following})

    async def _add_compaction(self, request: Request, params: Params) -> Response:
        session = self._session(params)
        names = ("summary", "fromMessageId", "toMessageId")
        fields = await body_fields(request, names)
        texts = [text_field(fields, name) for name in names]
        stored = await session.add_compaction(
            texts[0], texts[1], texts[2], idempotency_key=request_key(request)
        )
        return json_answer(to_wire(stored))

    async def _get_blocks(self, request: Request, params: Params) -> Response:
        blocks = await self._session(params).get_context_blocks()
        return json_answer({"blocks": all_to_wire(blocks)})

    async def _get_block(self, request: Request, params: Params) -> Response:
        for block in await self._session(params).get_context_blocks():
            if block.label == params["label"]:
                return json_answer(to_wire(block))
        text = f"the session has no context block {params['label']!r:.120}"
        return problem(404, "NoContextBlock", text)

    async def _replace_block(self, request: Request, params: Params) -> Response:
        session = self._session(params)
        content = text_field(await body_fields(request, ("content",)), "content")
        block = await session.replace_context_block(
            params["label"], content, idempotency_key=request_key(request)
        )
        return json_answer(to_wire(block))

    async def _append_block(self, request: Request, params: Params) -> Response:
        session = self._session(params)
        content = text_field(await body_fields(request, ("content",)), "content")
        block = await session.append_context_block(
            params["label"], content, idempotency_key=request_key(request)
        )
        return json_answer(to_wire(block))

    async def _freeze_prompt(self, request: Request, params: Params) -> Response:
        if is_readonly(request.scope):
            text = "this token may only read, and asking for a prompt stores it"
            return problem(403, "ReadonlyToken", text)
        return await self._of_agent(self._read_prompt)(request, params)

    async def _read_prompt(self, request: Request, params: Params) -> Response:
        return json_answer({"prompt": await self._session(params).freeze_system_prompt()})

    async def _refresh_prompt(self, request: Request, params: Params) -> Response:
        session, key = self._session(params), request_key(request)
        if not query_flag(request, "refresh", True):
            return await self._read_prompt(request, params)
        return json_answer({"prompt": await session.refresh_system_prompt(idempotency_key=key)})

    async def _get_tools(self, request: Request, params: Params) -> Response:
        return json_answer({"tools": await self._session(params).list_tools()})

    async def _run_tool(self, request: Request, params: Params) -> Response:
        session = self._session(params)
        fields = await body_fields(request, (), ("arguments",))
        arguments = fields.get("arguments", {})
        if not isinstance(arguments, dict):
            raise InvalidRequestError("arguments is an object")
        result = await session.run_tool(
            params["tool"], arguments, idempotency_key=request_key(request)
        )
        return json_answer({"result": result})

    def _of_agent(self, handler: Handler) -> Handler:
        """Have a reading handler that asks the agent answer 404 where there is none."""

        async def serve(request: Request, params: Params) -> Response:
            ref = self._agent_of(params).ref
            if await self._has_agent(ref):
                return await handler(request, params)
            text = f"there is no agent {ref} yet, and reading makes none; change something first"
            return problem(404, "NoAgent", text)

        return serve

    def _session(self, params: Params) -> SessionHandle:
        return self._agent_of(params).session(session_id_of(params["session"]))


def _page_of(request: Request) -> tuple[int, str | None]:
    limit = query_number(request, "limit", MAX_LISTED, least=1, most=MAX_LISTED)
    return limit, request.query_params.get("after")


async def _affordable(session: SessionHandle, leaf: str | None, count: int) -> int:
    """Return how many of the newest messages an answer has room for, at most so many."""
    if count == 1:
        return 1
    rows = await session.get_history_row_stats(leaf)
    size, fits = 0, 0
    for row in rows[: -count - 1 : -1]:
        size += row.bytes
        if size > MAX_ANSWER_BYTES:
            break
        fits += 1
    return max(1, fits)


def _unknown_message(params: Params, consequence: str) -> UnknownMessageError:
    message_id = params["message"]
    return UnknownMessageError(
        f"the session has no message {message_id!r:.120}{consequence}", id=message_id
    )


def _parent(fields: Mapping[str, Json]) -> Parent:
    if "parentId" not in fields:
        return AUTO
    parent = fields["parentId"]
    return None if parent is None else text_field(fields, "parentId")
