"""An agent's state as it changes, as a gateway tells it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Protocol

from agent_runtime.errors import AgentRuntimeError
from agent_runtime.hosting.state_reader import StateSnapshot
from agent_runtime.json_value import from_json

MAX_WAITING = 100
"""Who reads more slowly misses the oldest of what waits."""


class StateSource(Protocol):
    """What tells subscriptions of states."""

    def add(self, subscription: GatewaySubscription) -> None:
        """Tell it of the present state and all that follow."""

    def remove(self, subscription: GatewaySubscription) -> None:
        """Tell it no more."""


class GatewaySubscription(AsyncIterator[StateSnapshot]):
    """What `GatewayAgent.subscribe` returns: the present state, then each newer one.

    Versions only grow, also when the connection was lost in between, until the agent is destroyed:
    those of the next one of its name begin at 1. Who reads slowly gets newer
    states in place of those that were missed.
    """

    def __init__(self, source: StateSource) -> None:
        self._source = source
        self._waiting: deque[tuple[int, bytes]] = deque(maxlen=MAX_WAITING)
        self._changed = asyncio.Event()
        self._version = 0
        self._error: AgentRuntimeError | None = None
        self._has_begun = False
        self._is_closed = False

    async def __aenter__(self) -> GatewaySubscription:
        self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it; whoever waits for the next state is told that there is none."""
        self._is_closed = True
        self._source.remove(self)
        self._changed.set()

    def put(self, version: int, text: bytes) -> None:
        """Note a state, given as JSON text; one that is not newer is left out."""
        if version > self._version:
            self._version = version
            self._waiting.append((version, text))
            self._changed.set()

    def restart(self) -> None:
        """Take versions from the first on: the agent was destroyed, and is another one now."""
        self._version = 0

    def fail(self, error: AgentRuntimeError) -> None:
        """End it with an error, once what waits has been read."""
        self._error = error
        self._changed.set()

    async def __anext__(self) -> StateSnapshot:
        """Return the next state.

        Raises:
            StopAsyncIteration: It was closed, or its client was.
            ConfigurationError: The gateway does not let this client in.
            InvalidRequestError: The gateway knows no such agent.
        """
        self._begin()
        while True:
            if self._is_closed:
                raise StopAsyncIteration
            if self._waiting:
                version, text = self._waiting.popleft()
                return StateSnapshot(from_json(text), version)
            if self._error is not None:
                raise self._error
            self._changed.clear()
            await self._changed.wait()

    def _begin(self) -> None:
        if not self._has_begun and not self._is_closed:
            self._has_begun = True
            self._source.add(self)
