"""Running an agent's inbox: all its handlers, in one process at a time, each to its outcome.

Entries are started in order of arrival and run at the same time; exclusive calls wait for each
other. An entry stays in the inbox until its outcome is stored, so whatever is cut short by a crash
or a stop is found and repeated by the next runner of the agent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from agent_runtime.decision import CALL, HOOK
from agent_runtime.errors import (
    AgentRuntimeError,
    ExclusiveDeadlockError,
    HandlerCancelledError,
    InternalError,
    StorageError,
)
from agent_runtime.event_run import run_event
from agent_runtime.handler_run import prepare_hook, run_call, run_hook
from agent_runtime.host import AgentHost
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json, from_json, pack
from agent_runtime.storage.protocol import InboxMark, InvocationRow, Transaction
from agent_runtime.turn import Turn

logger = logging.getLogger("agent_runtime")

MAX_RUNNING = 1_000
LINGER_SECONDS = 2.0
_RETRY_SECONDS = 0.5
_WATCH_SECONDS = 0.05
_PRUNE_EVERY = 1_000


class AgentRunner:
    """The running handlers of one agent in this process."""

    def __init__(self, host: AgentHost, ref: AgentRef, agent_id: int) -> None:
        self._host = host
        self._ref = ref
        self.agent_id = agent_id
        self._running: dict[str, asyncio.Task[None]] = {}
        self._cancelled: set[str] = set()
        self._lane = asyncio.Lock()
        self._last_turn: Turn | None = None
        self._in_lane: set[str] = set()
        self._changed = asyncio.Event()
        self._cancellations = 0
        self._after = 0
        self._is_closed = False
        self._finished = 0
        self.ended = asyncio.Event()

    def notify(self, *, looks_back: bool) -> bool:
        """Look at the inbox, at all of it or at what is new; False if another runner must."""
        if looks_back:
            self._after = 0
        self._changed.set()
        return not self._is_closed

    def compare(self, mark: InboxMark) -> None:
        """Look at the inbox if another process has put something in or cancelled something."""
        if mark.cancellations != self._cancellations:
            self._cancellations = mark.cancellations
            self.notify(looks_back=True)
        elif mark.newest > self._after:
            self.notify(looks_back=False)

    async def run(self) -> int:
        """Run entries until the inbox has been empty for a moment; return how many ended."""
        try:
            idle_since = time.monotonic()
            while True:
                self._changed.clear()
                await self._start_new()
                if self._running or self._changed.is_set():
                    idle_since = time.monotonic()
                remaining = idle_since + LINGER_SECONDS - time.monotonic()
                if remaining <= 0 and await self._may_end():
                    return self._finished
                try:
                    async with asyncio.timeout(LINGER_SECONDS if self._running else remaining):
                        await self._changed.wait()
                except TimeoutError:
                    # Numbers may become visible out of order: now and then look at all of them.
                    self._after = 0
        finally:
            self._is_closed = True
            running = list(self._running.values())
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _may_end(self) -> bool:
        # Closed first, looked at once more after: what comes in between finds another runner.
        self._is_closed = True
        if await self._host.storage.read_inbox(self.agent_id, 0, 1):
            self._is_closed = False
        return self._is_closed

    async def _start_new(self) -> None:
        for row in await self._host.storage.read_inbox(self.agent_id, self._after, MAX_RUNNING):
            task = self._running.get(row.key)
            if task is None:
                if len(self._running) >= MAX_RUNNING:
                    return
                await self._start(row)
            self._after = max(self._after, row.number)
            if task is not None and row.is_cancelled and row.key not in self._cancelled:
                self._cancelled.add(row.key)
                task.cancel()

    async def _start(self, row: InvocationRow) -> None:
        if row.is_cancelled:
            self._cancelled.add(row.key)
        if row.kind == HOOK:
            stack = AsyncExitStack()
            try:
                agent = await stack.enter_async_context(self._host.using(self._ref))
                hook = await prepare_hook(self._host, agent, row)
            except AgentRuntimeError as error:
                logger.error("%s: change hook %s cannot start: %s", self._ref, row.key, error)
                await stack.aclose()
                if not error.is_retryable:
                    await self._drop(row)
                return

            async def tell() -> None:
                async with stack:
                    if self._host.registry.definition(self._ref.class_name).has_hook:
                        await run_hook(self._host, agent, hook)
                    await self._drop(row)

            work = tell()
        else:
            self._last_turn = turn = Turn(self._last_turn)
            work = self._call(row, turn)
        self._running[row.key] = asyncio.create_task(self._guarded(row, work))

    async def _guarded(self, row: InvocationRow, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            self._finished += 1
        except AgentRuntimeError as error:  # to be repeated: it is still in the inbox
            logger.warning("%s.%s waits: %s", self._ref, row.method, error)
            await self._pause()
        except Exception:
            logger.exception("%s.%s could not be run", self._ref, row.method)
            await self._pause()
        finally:
            self._running.pop(row.key, None)
            self._in_lane.discard(row.key)
            self._changed.set()

    async def _pause(self) -> None:
        await asyncio.sleep(_RETRY_SECONDS)
        self._after = 0

    async def _call(self, row: InvocationRow, turn: Turn) -> None:
        try:
            if row.key in self._cancelled:
                raise asyncio.CancelledError
            outcome: Json = {"result": await self._run(row, turn)}
        except asyncio.CancelledError:
            if row.key not in self._cancelled:
                raise
            error: AgentRuntimeError = HandlerCancelledError(
                f"the call of {self._ref}.{row.method} was cancelled", method=row.method
            )
            outcome = {"error": error.to_record()}
        except AgentRuntimeError as refused:
            if refused.is_retryable:
                raise
            outcome = {"error": refused.to_record()}
        except Exception as unknown:
            logger.exception("%s.%s failed", self._ref, row.method)
            error = InternalError(f"{row.method}: {type(unknown).__name__}", method=row.method)
            outcome = {"error": error.to_record()}
        finally:
            turn.pass_on()
        await self._finish(row, outcome)

    async def _run(self, row: InvocationRow, turn: Turn) -> Json:
        if row.kind != CALL:
            return await run_event(self._host, self._ref, row, turn)
        options = self._host.registry.definition(self._ref.class_name).callable(row.method)
        if not options.exclusive:
            return await run_call(self._host, self._ref, row, options, turn)
        if self._in_lane.intersection(from_json(row.request)["chain"]):
            raise ExclusiveDeadlockError(
                f"{self._ref}.{row.method} is exclusive and was called by an exclusive handler of "
                "the same agent, which waits for it; call the method on self instead",
                method=row.method,
            )
        self._in_lane.add(row.key)
        await turn.come()
        turn.pass_on()
        async with self._lane:
            return await run_call(self._host, self._ref, row, options, turn)

    async def _finish(self, row: InvocationRow, outcome: Json) -> None:
        finished = replace(row, outcome=pack(outcome).decode())
        prunes = row.number % _PRUNE_EVERY == 0

        async def unit(tx: Transaction) -> None:
            await tx.finish_invocations([finished])
            if prunes:
                now = time.time_ns() // 1_000_000
                await tx.prune_agent(self.agent_id, self._host.retention, now)

        await asyncio.shield(self._host.storage.write(unit))
        self._host.outcomes.tell(self._ref, row.key, outcome)

    async def _drop(self, row: InvocationRow) -> None:
        key = (row.agent_id, row.key)
        await self._host.storage.write(lambda tx: tx.delete_invocations([key]))


async def run_handlers(host: AgentHost, ref: AgentRef) -> int:
    """Run an agent's handlers until its inbox has been empty for a moment.

    A runner of the same agent that is still ending in this process is waited for.
    """
    while isinstance(before := host.runners.get(ref), AgentRunner):
        await before.ended.wait()
    runner = AgentRunner(host, ref, await host.agent_id(ref))
    host.runners[ref] = runner
    try:
        return await runner.run()
    finally:
        if host.runners.get(ref) is runner:
            del host.runners[ref]
        runner.ended.set()


async def watch_inboxes(host: AgentHost) -> None:
    """Tell this process's runners what other processes put into their inboxes, for ever."""
    while True:
        await asyncio.sleep(_WATCH_SECONDS)
        runners = {
            runner.agent_id: runner
            for runner in host.runners.values()
            if isinstance(runner, AgentRunner)
        }
        if not runners:
            continue
        try:
            marks = await host.storage.read_inbox_marks(list(runners))
        except StorageError as error:
            logger.warning("inboxes cannot be watched: %s", error)
            continue
        for agent_id, mark in marks.items():
            runners[agent_id].compare(mark)
