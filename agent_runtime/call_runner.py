"""Running a handler call to its recorded outcome."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol

from agent_runtime.call import CallRequest, CallResult
from agent_runtime.errors import (
    AUTHOR_ERRORS,
    AgentRuntimeError,
    ExclusiveDeadlockError,
    HandlerCancelledError,
    HandlerError,
    IdempotencyConflictError,
    InvalidRequestError,
    describe,
    from_record,
    text_of,
)
from agent_runtime.handler import CallableOptions
from agent_runtime.host import AgentHost
from agent_runtime.invocation import Invocation, run_within
from agent_runtime.json_value import Json, fingerprint, from_json, pack, to_json
from agent_runtime.storage.protocol import InvocationRow

logger = logging.getLogger("agent_runtime")

MAX_RESULT_BYTES = 1_900_000
"""The server takes 2 MiB, with what is around the result."""

_LANE_POLL_SECONDS = 0.2
_LANE_CHECK_SECONDS = 5.0


class CallCarrier(Protocol):
    """The Temporal run that carries a call."""

    @property
    def host_id(self) -> str:
        """Names the run, so that others can see whether it still exists."""

    async def is_gone(self, host_id: str) -> bool:
        """Tell whether the run of another call has ended without its call having finished."""

    def is_cancelled(self) -> bool:
        """Somebody asked for the call to be cancelled; else a cancelled handler is repeated."""


async def run_call(host: AgentHost, request: CallRequest, carrier: CallCarrier) -> CallResult:
    """Run a handler call, or return the outcome that its key already has.

    Raises:
        InvalidRequestError: There is no such class or method, or it is not callable.
        HandlerError: The handler raised; recorded, so a repeat raises the same.
        IdempotencyConflictError: The key was used for another call.
        StorageError: Nothing was recorded; repeat it.
    """
    definition = host.registry.definition(request.agent)
    options = definition.callable(request.method)
    digest = call_fingerprint(request)
    known = await host.storage.read_invocation(request.ref, request.key)
    if known is None and options.exclusive:
        row = await _row(host, request, carrier, options)
        known = await host.storage.write(lambda tx: tx.add_invocation(row))
    if known is not None and known.fingerprint != digest:
        raise IdempotencyConflictError(
            f"idempotency key {request.key!r} was used for another call of {known.method}; "
            "use a new key for a new call",
            key=request.key,
        )
    if known is not None and known.outcome is not None:
        return CallResult(digest, _open_outcome(from_json(known.outcome)))
    try:
        if options.exclusive:
            await _wait_for_lane(host, request, carrier)
        result = await _run_handler(host, request, options)
        outcome = {"result": _json_result(request, result)}
    except asyncio.CancelledError:
        if carrier.is_cancelled():
            cancelled = HandlerCancelledError(f"{request.ref}.{request.method} was cancelled")
            row = await _row(host, request, carrier, options)
            await _end(host, row, {"error": cancelled.to_record()})
        raise
    except AgentRuntimeError as error:
        if error.is_retryable:
            raise
        outcome = {"error": error.to_record()}
    await _end(host, await _row(host, request, carrier, options), outcome)
    return CallResult(digest, _open_outcome(outcome))


def _json_result(request: CallRequest, result: object) -> Json:
    text = to_json(result, what=f"the result of {request.method}")
    if len(text) > MAX_RESULT_BYTES:
        raise HandlerError(
            f"{request.method} returned {len(text)} bytes of JSON, at most {MAX_RESULT_BYTES} are "
            "allowed; keep bulk data in self.sql and return where it is",
            method=request.method,
            size=len(text),
            limit=MAX_RESULT_BYTES,
        )
    return from_json(text)


def call_fingerprint(request: CallRequest) -> str:
    """Digest what a call's idempotency key stands for."""
    return fingerprint([request.method, request.args])


async def _run_handler(host: AgentHost, request: CallRequest, options: CallableOptions) -> Json:
    ref = request.ref
    async with host.using(ref) as agent:
        invocation = Invocation(
            host,
            agent,
            await host.agent_id(ref),
            request.key,
            [
                *await host.storage.read_effects(ref, request.key),
                *await host.storage.sql_effects(ref, request.key),
            ],
            hook_depth=request.hook_depth,
            chain=tuple(request.chain),
        )
        method = getattr(agent, request.method)
        try:
            inspect.signature(method).bind(*request.args)
        except TypeError as error:
            raise InvalidRequestError(f"{request.method}: {error}", method=request.method) from None
        try:
            async with asyncio.timeout(options.timeout.total_seconds()) as limit:
                result = await run_within(invocation, lambda: _invoke(method, request.args))
        except TimeoutError as error:
            if not limit.expired():
                raise _handler_error(request, error) from error
            raise HandlerError(
                f"{ref}.{request.method} took longer than its timeout of {options.timeout}",
                method=request.method,
            ) from None
        except AgentRuntimeError:
            raise
        except AUTHOR_ERRORS as error:
            logger.exception("%s.%s raised", ref, request.method)
            raise _handler_error(request, error) from error
        await host.store_initial_state(agent)
        return result


async def _invoke(method: Callable[..., Any], args: list[Json]) -> Json:
    if inspect.iscoroutinefunction(method):
        return await method(*args)
    # A plain method may block; a thread keeps it from holding up every other agent.
    result = await asyncio.to_thread(_called, method, args)
    return await result if isinstance(result, Awaitable) else result


def _called(method: Callable[..., Any], args: list[Json]) -> Any:
    try:
        return method(*args)
    except StopIteration as error:
        # Not to be carried by a future; a coroutine would turn it into the same.
        raise RuntimeError("the method raised StopIteration") from error


def _handler_error(request: CallRequest, error: BaseException) -> HandlerError:
    return HandlerError(
        f"{request.method}: {describe(error)}",
        method=request.method,
        error_type=type(error).__name__,
        error=text_of(error),
    )


async def _wait_for_lane(host: AgentHost, request: CallRequest, carrier: CallCarrier) -> None:
    checked = time.monotonic()
    while True:
        holder = await host.storage.read_exclusive_holder(request.ref)
        if holder is None or holder.key == request.key:
            return
        if holder.key in request.chain:
            raise ExclusiveDeadlockError(
                f"{request.ref}.{request.method} is exclusive and was called by {holder.method}, "
                "which is exclusive too and waits for it; call the method on self instead",
                method=request.method,
                holder=holder.method,
            )
        if time.monotonic() - checked > _LANE_CHECK_SECONDS:
            checked = time.monotonic()
            if await carrier.is_gone(holder.host):
                abandoned = HandlerCancelledError(f"{holder.method}: its run ended without it")
                await _end(host, holder, {"error": abandoned.to_record()})
        await asyncio.sleep(_LANE_POLL_SECONDS)


async def _row(
    host: AgentHost, request: CallRequest, carrier: CallCarrier, options: CallableOptions
) -> InvocationRow:
    return InvocationRow(
        await host.agent_id(request.ref),
        request.key,
        request.method,
        call_fingerprint(request),
        options.exclusive,
        carrier.host_id,
        time.time_ns() // 1_000_000,
    )


async def _end(host: AgentHost, row: InvocationRow, outcome: Json) -> None:
    finished = replace(row, outcome=pack(outcome).decode())
    await host.storage.write(lambda tx: tx.finish_invocation(finished))


def _open_outcome(outcome: Json) -> Json:
    if "error" in outcome:
        raise from_record(outcome["error"])
    return outcome["result"]
