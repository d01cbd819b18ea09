"""Handlers that are run, crashed and repeated, each time as in a new process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

import pytest

from agent_runtime import Agent
from agent_runtime.errors import StorageUnavailableError
from agent_runtime.handlers.handler_journal import run_within
from agent_runtime.handlers.invocation import Invocation
from agent_runtime.handlers.recorded_effects import recorded_effects
from agent_runtime.hosting.host import AgentHost
from agent_runtime.identity import AgentRef
from agent_runtime.registry import AgentRegistry
from agent_runtime.storage.protocol import Storage
from agent_runtime.storage.sqlite import SqliteStorage

AgentT = TypeVar("AgentT", bound=Agent[Any])
T = TypeVar("T")

KEY = "call-1"


class Crash(BaseException):
    """Ends a run the way a killed process does."""


class RepeatedHandler(Generic[AgentT]):
    """Runs code as a handler of one agent, each time with an object made anew.

    Code that is run twice under one key is the repeat of a handler.
    """

    def __init__(self, storage: Storage, agent_class: type[AgentT], name: str = "a") -> None:
        self.storage = storage
        self.ref = AgentRef(agent_class.__name__, name)
        self._agent_class = agent_class

    async def __call__(self, handler: Callable[[AgentT], Awaitable[T]], key: str = KEY) -> T:
        """Run a handler to its end and return what it returns."""
        host = AgentHost(
            self.storage, AgentRegistry([self._agent_class]), on_inbox=lambda ref: None
        )
        async with host.using(self.ref) as agent:
            number = await host.agent_id(self.ref)
            recorded = await recorded_effects(self.storage, self.ref, number, key)
            invocation = Invocation(host, agent, number, key, recorded)

            async def code() -> T:
                assert isinstance(agent, self._agent_class)
                return await handler(agent)

            return await run_within(invocation, code)

    async def until_crash(self, handler: Callable[[AgentT], Awaitable[Any]]) -> None:
        """Run a handler that ends with a crash, or may."""
        with contextlib.suppress(Crash, StorageUnavailableError):
            await self(handler)


@contextlib.contextmanager
def crashing_at_write(storage: SqliteStorage, at: int, *, is_before: bool) -> Iterator[list[None]]:
    """Crash at the n-th transaction, before or after it is done; there are none afterwards.

    Yields a list with an item for each transaction so far.
    """
    written: list[None] = []
    original = storage.write
    handler = asyncio.current_task()

    def crash() -> BaseException:
        # What commits states for all handlers must go on; to the handler it looks the same.
        is_own = asyncio.current_task() is handler
        return Crash() if is_own else StorageUnavailableError("killed")

    async def write(unit: Any) -> Any:
        written.append(None)
        this = len(written)
        if 0 < at < this or (this == at and is_before):
            raise crash()
        result = await original(unit)
        if this == at:
            raise crash()
        return result

    with pytest.MonkeyPatch.context() as context:
        context.setattr(storage, "write", write)
        yield written
