"""Running the hooks for what a connected client does; entries of the inbox like calls."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from agent_runtime.agent import Agent
from agent_runtime.agent_connection import Connection, open_payload
from agent_runtime.caller import Caller
from agent_runtime.durable_compaction.compaction_job import COMPACTION_EVENT, run_compaction_step
from agent_runtime.errors import AgentRuntimeError, InvalidRequestError, repeats_handler
from agent_runtime.handler import DEFAULT_TIMEOUT
from agent_runtime.handlers.handler_run import find_caller, report_error, run_code
from agent_runtime.handlers.session_call import run_session_call
from agent_runtime.handlers.turn import Turn
from agent_runtime.hosting.host import AgentHost
from agent_runtime.http_message import Request, Response
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json, from_json
from agent_runtime.mutation import SESSION_EVENT
from agent_runtime.storage.protocol import ConnectionRow, InvocationRow

MAX_TAGS = 10
MAX_TAG_LENGTH = 256


async def run_event(host: AgentHost, ref: AgentRef, row: InvocationRow, turn: Turn) -> Json:
    """Run a hook and return what the gateway is to know.

    Raises:
        HandlerError: The hook raised; of `on_message` and `on_close` it goes to `on_error`.
    """
    fields = from_json(row.request)
    async with host.using(ref) as agent:
        caller = await find_caller(host, agent, fields.get("caller"))
        if row.kind in ("connect", "request"):
            caller = replace(caller, request=Request.from_value(fields["args"][0]))
        args = fields["args"]
        if row.kind == SESSION_EVENT:
            args = [row.method, *args]
        if row.kind == COMPACTION_EVENT:
            code = _compaction(host, agent, row, args)
        else:
            code = _CODE[row.kind](agent, caller, args)

        async def begin() -> Json:
            turn.pass_on()
            return await code()

        try:
            return await run_code(host, agent, row, begin, caller, DEFAULT_TIMEOUT, turn)
        except AgentRuntimeError as error:
            if repeats_handler(error) or row.kind not in ("message", "close"):
                raise
            await report_error(host, agent, row.agent_id, row.method, error.__cause__ or error)
            return None


Code = Callable[[], Awaitable[Json]]


def _admit(agent: Agent[Any], caller: Caller, args: list[Json]) -> Code:
    fields, value = args
    connection = Connection(ConnectionRow(**fields), agent._effects)
    request = Request.from_value(value)

    async def run() -> Json:
        tags = [connection.id, *await agent.get_connection_tags(connection, request)]
        if len(tags) > MAX_TAGS or not all(
            isinstance(tag, str) and 0 < len(tag) <= MAX_TAG_LENGTH for tag in tags
        ):
            raise InvalidRequestError(
                f"a connection has at most {MAX_TAGS} tags with its id, each a text of 1 to "
                f"{MAX_TAG_LENGTH} characters"
            )
        return {
            "tags": tags,
            "is_readonly": bool(agent.should_connection_be_readonly(connection, request)),
            "has_protocol": bool(agent.should_send_protocol_messages(connection, request)),
        }

    return run


def _connect(agent: Agent[Any], caller: Caller, args: list[Json]) -> Code:
    async def run() -> Json:
        if caller.connection is not None and caller.request is not None:
            await agent.on_connect(caller.connection, caller.request)

    return run


def _message(agent: Agent[Any], caller: Caller, args: list[Json]) -> Code:
    async def run() -> Json:
        if caller.connection is not None:
            await agent.on_message(caller.connection, open_payload(args[0]))

    return run


def _close(agent: Agent[Any], caller: Caller, args: list[Json]) -> Code:
    fields, code, reason, was_clean = args
    connection = Connection(ConnectionRow(**fields), agent._effects)

    async def run() -> Json:
        await agent.on_close(connection, code, reason, was_clean)

    return run


def _request(agent: Agent[Any], caller: Caller, args: list[Json]) -> Code:
    async def run() -> Json:
        answer: Any = agent.on_request(caller.request or Request.from_value(args[0]))
        if inspect.isawaitable(answer):
            answer = await answer
        return (answer if isinstance(answer, Response) else Response(answer)).to_value()

    return run


def _session(agent: Agent[Any], caller: Caller, args: list[Json]) -> Code:
    method, session_id, *rest = args

    async def run() -> Json:
        return await run_session_call(agent, method, session_id, rest)

    return run


def _compaction(host: AgentHost, agent: Agent[Any], row: InvocationRow, args: list[Json]) -> Code:
    async def run() -> Json:
        return await run_compaction_step(host.storage, agent, row.agent_id, row.method, args)

    return run


_CODE: dict[str, Callable[[Agent[Any], Caller, list[Json]], Code]] = {
    "admit": _admit,
    "connect": _connect,
    "message": _message,
    "close": _close,
    "request": _request,
    SESSION_EVENT: _session,
}
