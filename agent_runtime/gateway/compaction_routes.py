"""Having an agent summarize, over plain HTTP: begun, watched, cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from agent_runtime.call import CompactionOutcome
from agent_runtime.client.handle import AgentHandle
from agent_runtime.client.session_handle import SessionHandle
from agent_runtime.gateway.request_parts import (
    Handler,
    Params,
    body_fields,
    json_answer,
    query_number,
    request_key,
    text_field,
)
from agent_runtime.gateway.session_routes import SESSION
from agent_runtime.session.session_json import to_wire
from agent_runtime.session.session_segment import session_id_of

MAX_WAIT_SECONDS = 60
"""Who waits longer asks again; proxies cut off what is silent for much longer."""

_ENDED_SECONDS = 2.0


class CompactionRoutes:
    """Serves the summarizing of one of an agent's sessions.

    Args:
        agent_of: Returns the agent that a path names.
    """

    def __init__(self, agent_of: Callable[[Params], AgentHandle]) -> None:
        self._agent_of = agent_of
        self.endpoints: dict[str, dict[str, Handler]] = {
            f"{SESSION}/compact": {
                "GET": self._watch,
                "POST": self._compact,
                "DELETE": self._cancel,
            },
        }

    async def _compact(self, request: Request, params: Params) -> Response:
        session = self._session(params)
        fields = await body_fields(request, (), ("leafId",))
        leaf = None if fields.get("leafId") is None else text_field(fields, "leafId")
        result = await session.compact(leaf, idempotency_key=request_key(request))
        return json_answer({"compaction": None if result is None else to_wire(result)})

    async def _watch(self, request: Request, params: Params) -> Response:
        compaction, leaf = self._session(params).compaction, request.query_params.get("leaf")
        wait = query_number(request, "wait", 0, most=MAX_WAIT_SECONDS)
        outcome: CompactionOutcome | None = None
        while True:
            progress = await compaction.progress(leaf)
            if progress is not None and not wait:
                break
            try:
                # It waits for one that runs, such as one that has begun at this moment.
                async with asyncio.timeout(wait or _ENDED_SECONDS):
                    outcome, progress = await compaction.last_outcome(leaf), None
                break
            except TimeoutError:
                wait = 0
        return json_answer(
            {
                "progress": None if progress is None else to_wire(progress),
                "outcome": None if outcome is None else to_wire(outcome),
            }
        )

    async def _cancel(self, request: Request, params: Params) -> Response:
        compaction, leaf = self._session(params).compaction, request.query_params.get("leaf")
        return json_answer({"cancelled": await compaction.cancel(leaf)})

    def _session(self, params: Params) -> SessionHandle:
        return self._agent_of(params).session(session_id_of(params["session"]))
