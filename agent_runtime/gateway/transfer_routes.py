"""Whole conversations in and out of agents as JSON Lines, over plain HTTP."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import BinaryIO

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agent_runtime.client.handle import AgentHandle
from agent_runtime.gateway.limits import max_import_bytes
from agent_runtime.gateway.problems import problem
from agent_runtime.gateway.request_parts import Handler, Params, json_answer
from agent_runtime.gateway.session_routes import SESSION
from agent_runtime.session.session_export import existing_lines
from agent_runtime.session.session_json import to_wire
from agent_runtime.session.session_segment import session_id_of

IMPORT = "/api/agents/{agent}/{name}/session-import"
MEDIA_TYPE = "application/jsonl"

_ACCEPTED = (MEDIA_TYPE, "application/x-ndjson", "application/json-lines")
_CHUNK_BYTES = 64 * 1024


class _TooLong(Exception):
    """The body has more bytes than an import may have."""


class TransferRoutes:
    """Serves exports and imports.

    Args:
        agent_of: Returns the agent that a path names.
    """

    def __init__(self, agent_of: Callable[[Params], AgentHandle]) -> None:
        self._agent_of = agent_of
        self.endpoints: dict[str, dict[str, Handler]] = {
            f"{SESSION}/export": {"GET": self._export},
            IMPORT: {"POST": self._import},
        }

    async def _export(self, request: Request, params: Params) -> Response:
        session_id = session_id_of(params["session"])
        lines = self._agent_of(params).sessions().export(session_id)
        # What can be refused is refused before the answer begins.
        existing = existing_lines(lines, f"{session_id!r:.120}")
        chunks = _chunks(await anext(existing), existing)
        if request.method == "HEAD":
            await chunks.aclose()
            return Response(media_type=MEDIA_TYPE)
        return StreamingResponse(chunks, media_type=MEDIA_TYPE)

    async def _import(self, request: Request, params: Params) -> Response:
        sessions, segment = self._agent_of(params).sessions(), request.query_params.get("session")
        session_id = None if segment is None else session_id_of(segment)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in _ACCEPTED:
            text = f"the body must be {MEDIA_TYPE}, not {kind!r:.80}"
            return problem(415, "UnsupportedBody", text)
        limit = max_import_bytes(request.scope)
        with tempfile.TemporaryFile() as file:
            try:
                await _receive(request, file, limit)
            except _TooLong:
                text = f"the session is longer than {limit} bytes; bring it with the program"
                return problem(413, "BodyTooLarge", text, headers={"Connection": "close"})
            imported = await sessions.import_file(file, session_id=session_id)
        return json_answer(to_wire(imported))


async def _receive(request: Request, file: BinaryIO, limit: int | None) -> None:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if limit is not None and size > limit:
            raise _TooLong
        await asyncio.to_thread(file.write, chunk)


async def _chunks(first: str, lines: AsyncIterator[str]) -> AsyncGenerator[bytes]:
    parts, size = [first], len(first)
    async for line in lines:
        if size >= _CHUNK_BYTES:
            yield _joined(parts)
            parts, size = [], 0
        parts.append(line)
        size += len(line)
    yield _joined(parts)


def _joined(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
