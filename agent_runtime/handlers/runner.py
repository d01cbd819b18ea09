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

from agent_runtime.clock import now_milliseconds
from agent_runtime.errors import (
    AgentRuntimeError,
    ExclusiveDeadlockError,
    HandlerCancelledError,
    InternalError,
    StorageError,
    is_stop,
    repeats_handler,
)
from agent_runtime.handlers.cancellation import cancel_for_caller
from agent_runtime.handlers.event_run import run_event
from agent_runtime.handlers.handler_run import prepare_hook, run_call, run_hook
from agent_runtime.handlers.turn import Turn
from agent_runtime.hosting.decision import CALL, HOOK
from agent_runtime.hosting.destruction import finish_destroys
from agent_runtime.hosting.host import AgentHost
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json, from_json, pack
from agent_runtime.storage.protocol import InboxMark, InvocationRow, Transaction

logger = logging.getLogger("agent_runtime")

MAX_RUNNING = 1_000
LINGER_SECONDS = 2.0
_RETRY_SECONDS = 0.5
_WATCH_SECONDS = 0.05
_PRUNE_EVERY = 1_000
_FAREWELL_SECONDS = 5.0
"""How long a handler that has destroyed its agent may go on."""


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
        self._spared: set[str] = set()
        self._changed = asyncio.Event()
        self._cancellations = 0
        self._after = 0
        self._is_closed = False
        self.is_agent_gone = False
        self.finished = 0
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

    def spare(self, call: str) -> None:
        """Let a call end that is about to destroy the agent."""
        self._spared.add(call)

    def leave(self, agent_id: int) -> None:
        """Stop the handlers of a destroyed agent, but for those that are spared for a while."""
        if agent_id != self.agent_id or self.is_agent_gone:
            return
        self.is_agent_gone = True
        for key, task in self._running.items():
            if key in self._spared:
                asyncio.get_running_loop().call_later(_FAREWELL_SECONDS, task.cancel)
            else:
                task.cancel()
        self._changed.set()

    def has(self, agent_id: int, call: str) -> bool:
        """Tell whether a call of the agent with this number runs here."""
        return agent_id == self.agent_id and call in self._running

    async def run(self) -> None:
        """Run entries until the inbox has been empty for a moment, or the agent is destroyed."""
        try:
            idle_since = time.monotonic()
            while self._running or not self.is_agent_gone:
                self._changed.clear()
                await self._start_new()
                if self._running or self._changed.is_set():
                    idle_since = time.monotonic()
                remaining = idle_since + LINGER_SECONDS - time.monotonic()
                if remaining <= 0 and await self._may_end():
                    return
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
            if self.is_agent_gone:
                return
            task = self._running.get(row.key)
            if task is None:
                if len(self._running) >= MAX_RUNNING:
                    return
                await self._start(row)
            self._after = max(self._after, row.number)
            if task is not None and row.is_cancelled and row.key not in self._cancelled:
                self._cancelled.add(row.key)
                cancel_for_caller(task)

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
        task = self._running[row.key] = asyncio.create_task(self._guarded(row, work))
        task.add_done_callback(lambda _: self._ended(row, work))
        if self.is_agent_gone:
            task.cancel()

    def _ended(self, row: InvocationRow, work: Coroutine[Any, Any, None]) -> None:
        work.close()  # one that was stopped before it began is not begun any more
        self._running.pop(row.key, None)
        self._in_lane.discard(row.key)
        self._changed.set()

    async def _guarded(self, row: InvocationRow, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            self.finished += 1
        except AgentRuntimeError as error:  # to be repeated: it is still in the inbox
            logger.warning("%s.%s waits: %s", self._ref, row.method, error)
            await self._pause()
        except BaseException as error:
            if is_stop(error):
                raise
            logger.exception("%s.%s could not be run", self._ref, row.method)
            await self._pause()

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
            if repeats_handler(refused):
                raise
            outcome = {"error": refused.to_record()}
        except BaseException as unknown:
            if is_stop(unknown):
                raise
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
        text = pack(outcome).decode()
        finished = replace(row, outcome=text)
        prunes = row.number % _PRUNE_EVERY == 0

        async def unit(tx: Transaction) -> None:
            await tx.finish_invocations([finished])
            if self.is_agent_gone:
                await tx.finish_destroyed_call(self.agent_id, row.key, text)
            if prunes:
                now = now_milliseconds()
                await tx.prune_agent(self.agent_id, self._host.retention, now)

        await asyncio.shield(self._host.storage.write(unit))
        self._host.outcomes.tell(self._ref, row.key, outcome)
        await self._host.storage.forget_sql_effects(self._ref, row.agent_id, row.key)

    async def _drop(self, row: InvocationRow) -> None:
        key = (row.agent_id, row.key)
        await self._host.storage.write(lambda tx: tx.delete_invocations([key]))
        await self._host.storage.forget_sql_effects(self._ref, *key)


async def run_handlers(host: AgentHost, ref: AgentRef) -> int:
    """Run an agent's handlers until its inbox has been empty for a moment.

    A runner of the same agent that is still ending in this process is waited for. What a destroy
    has left undone is done first; if the agent is destroyed meanwhile, the next one is served.
    """
    while isinstance(before := host.runners.get(ref), AgentRunner):
        await before.ended.wait()
    finished = 0
    while True:
        await finish_destroys(host.storage, ref=ref)
        stored = await host.storage.read_state(ref)
        if stored is None:
            return finished
        runner = AgentRunner(host, ref, stored.agent_id)
        host.runners[ref] = runner
        try:
            await runner.run()
        finally:
            if host.runners.get(ref) is runner:
                del host.runners[ref]
            runner.ended.set()
        finished += runner.finished
        if not runner.is_agent_gone:
            return finished


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
            quiet = [agent_id for agent_id in runners if agent_id not in marks]
            living = await host.storage.read_living(quiet) if quiet else set()
        except StorageError as error:
            logger.warning("inboxes cannot be watched: %s", error)
            continue
        for agent_id, mark in marks.items():
            runners[agent_id].compare(mark)
        for agent_id in set(quiet) - living:
            runners[agent_id].leave(agent_id)
