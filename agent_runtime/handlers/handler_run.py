"""Running one entry of an agent's inbox: a call to its outcome, a change hook to its end."""

from __future__ import annotations

import asyncio
import inspect
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import orjson

from agent_runtime.agent import Agent
from agent_runtime.agent_connection import Connection, ResponseStream
from agent_runtime.caller import NOBODY, Caller, enter_as
from agent_runtime.errors import (
    AgentDestroyedError,
    AgentRuntimeError,
    HandlerError,
    InvalidRequestError,
    describe,
    is_stop,
    repeats_handler,
    text_of,
)
from agent_runtime.handler import CallableOptions
from agent_runtime.handlers.handler_journal import run_within
from agent_runtime.handlers.invocation import Invocation
from agent_runtime.handlers.recorded_effects import recorded_effects
from agent_runtime.handlers.turn import Turn
from agent_runtime.hosting.host import AgentHost
from agent_runtime.hosting.state_change import rebuild
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json, from_json, to_json
from agent_runtime.state import UNSET, Unset
from agent_runtime.storage.protocol import InvocationRow

T = TypeVar("T")

logger = logging.getLogger("agent_runtime")

MAX_RESULT_BYTES = 2_000_000
"""A workflow that asks takes 2 MiB, with what is around the result."""


async def run_call(
    host: AgentHost, ref: AgentRef, row: InvocationRow, options: CallableOptions, turn: Turn
) -> Json:
    """Run a callable method and return its result in JSON form.

    Raises:
        HandlerError: The method raised, or took too long.
        NotSerializableError: Its result is not JSON.
        AgentStartError: `on_start` raised.
    """
    request = from_json(row.request)
    async with host.using(ref) as agent:
        caller = await find_caller(host, agent, request.get("caller"))
        args = list(request["args"])
        if options.streaming:
            args.insert(0, _stream(agent, request.get("caller")))
        method = getattr(agent, row.method)
        result = await run_code(
            host, agent, row, lambda: _invoke(method, args, turn), caller, options.timeout, turn
        )
    return _json_result(row.method, result)


async def run_code(
    host: AgentHost,
    agent: Agent[Any],
    row: InvocationRow,
    code: Callable[[], Awaitable[T]],
    caller: Caller,
    timeout: timedelta,
    turn: Turn,
) -> T:
    """Run code of an agent as an invocation of its own, with what an earlier run had recorded.

    The code passes the turn on when it begins, or when it has run if it cannot wait.

    Raises:
        HandlerError: The code raised, or took longer than `timeout`.
    """
    request = from_json(row.request)
    invocation = Invocation(
        host,
        agent,
        row.agent_id,
        row.key,
        await recorded_effects(host.storage, agent._ref, row.agent_id, row.key),
        hook_depth=request["hook_depth"],
        chain=tuple(request["chain"]),
    )
    await turn.come()
    enter_as(caller)
    try:
        async with asyncio.timeout(timeout.total_seconds()) as limit:
            result = await run_within(invocation, code)
    except AgentRuntimeError:
        raise
    except BaseException as error:
        if is_stop(error):
            raise
        if isinstance(error, TimeoutError) and limit.expired():
            raise HandlerError(
                f"{row.method} took longer than its timeout of {timeout}", method=row.method
            ) from None
        logger.exception("%s.%s raised", agent._ref, row.method)
        raise _handler_error(row.method, error) from error
    await host.store_initial_state(agent, row.agent_id)
    return result


async def find_caller(host: AgentHost, agent: Agent[Any], fields: dict[str, Json] | None) -> Caller:
    """Return the client behind a call; of one that has gone, whether it could only read."""
    if fields is None:
        return NOBODY
    rows = await host.storage.read_connections(agent._ref)
    found = [Connection(row, agent._effects) for row in rows if row.socket == fields["socket"]]
    return Caller(found[0]) if found else Caller(was_readonly=fields.get("is_readonly", False))


def _stream(agent: Agent[Any], caller: dict[str, Json] | None) -> ResponseStream:
    if caller is None or "call_id" not in caller:
        raise InvalidRequestError("a streaming method can be called by connected clients only")
    return ResponseStream(agent._effects, caller["socket"], caller["call_id"])


@dataclass(frozen=True, slots=True)
class ChangeHook:
    """A change hook with all that it is given, ready to run."""

    invocation: Invocation
    state: Json | Unset
    source: str


async def prepare_hook(host: AgentHost, agent: Agent[Any], row: InvocationRow) -> ChangeHook:
    """Read what a hook is given; apart from running it, so that hooks start in order."""
    request, ref = from_json(row.request), agent._ref
    entries = await host.storage.read_version(ref, request["version"])
    invocation = Invocation(
        host,
        agent,
        row.agent_id,
        row.key,
        await recorded_effects(host.storage, ref, row.agent_id, row.key),
        hook_depth=request["depth"],
        is_hook=True,
    )
    value = rebuild([(entry.is_full, entry.value) for entry in entries])
    return ChangeHook(invocation, value, entries[-1].source if entries else "server")


async def run_hook(host: AgentHost, agent: Agent[Any], hook: ChangeHook) -> None:
    """Run `on_state_changed`; its error goes to `on_error` and ends it.

    Raises:
        StorageUnavailableError: It is to be repeated.
    """
    enter_as(NOBODY)
    try:
        is_pruned = hook.state is UNSET
        state = agent.state if is_pruned else agent._schema.load(orjson.dumps(hook.state))
        await run_within(hook.invocation, lambda: agent.on_state_changed(state, hook.source))
    except AgentDestroyedError:
        return
    except BaseException as error:
        if is_stop(error) or repeats_handler(error):
            raise
        await report_error(host, agent, hook.invocation.agent_id, "on_state_changed", error)


async def _invoke(method: Callable[..., Any], args: list[Json], turn: Turn) -> Json:
    if inspect.iscoroutinefunction(method):
        turn.pass_on()
        return await method(*args)
    # A plain method may block; a thread keeps it from holding up every other agent.
    try:
        result = await asyncio.to_thread(_called, method, args)
    finally:
        turn.pass_on()
    return await result if isinstance(result, Awaitable) else result


def _called(method: Callable[..., Any], args: list[Json]) -> Any:
    try:
        return method(*args)
    except StopIteration as error:
        # Not to be carried by a future; a coroutine would turn it into the same.
        raise RuntimeError("the method raised StopIteration") from error


def _json_result(method: str, result: object) -> Json:
    text = to_json(result, what=f"the result of {method}")
    if len(text) > MAX_RESULT_BYTES:
        raise HandlerError(
            f"{method} returned {len(text)} bytes of JSON, at most {MAX_RESULT_BYTES} are "
            "allowed; keep bulk data in self.sql and return where it is",
            method=method,
            size=len(text),
            limit=MAX_RESULT_BYTES,
        )
    return from_json(text)


def _handler_error(method: str, error: BaseException) -> HandlerError:
    return HandlerError(
        f"{method}: {describe(error)}",
        method=method,
        error_type=type(error).__name__,
        error=text_of(error),
    )


async def report_error(
    host: AgentHost, agent: Agent[Any], agent_id: int, hook: str, error: BaseException
) -> None:
    """Give an error that no caller gets to `on_error`."""
    failure = HandlerError(f"{hook} failed: {describe(error)}", hook=hook)
    failure.__cause__ = error
    ref = agent._ref
    invocation = Invocation(host, agent, agent_id, f"error/{uuid.uuid4()}")
    try:
        await run_within(invocation, lambda: agent.on_error(failure))
    except BaseException as raised:
        if is_stop(raised):
            raise
        logger.exception("%s: on_error raised", ref)
    finally:
        await invocation.forget()
