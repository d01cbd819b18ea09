"""An agent's state as it changes, for Python services."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING

from agent_runtime.client.change_watch import Waiter
from agent_runtime.errors import StorageUnavailableError, UnavailableError
from agent_runtime.hosting.state_reader import StateSnapshot

if TYPE_CHECKING:
    from agent_runtime.client.channel import Channel
    from agent_runtime.client.handle import AgentHandle

logger = logging.getLogger("agent_runtime")

_LOOK_SECONDS = 5.0
"""Also without a sign from the change feed, which forgets: nobody stays behind for ever."""

_ASK_SECONDS = 1.0
"""How often it is asked for through Temporal, where there is no storage."""


class StateSubscription(AsyncIterator[StateSnapshot]):
    """What `AgentHandle.subscribe` returns: the present state, then each newer one.

    Who reads slowly gets the newest in place of all that was missed. Versions only grow, until the
    agent is destroyed: those of the next one of its name begin at 1.
    """

    def __init__(self, agent: AgentHandle, channel: Channel) -> None:
        self._agent = agent
        self._channel = channel
        self._waiter: Waiter | None = None
        self._version = -1
        self._is_closed = False

    async def __aenter__(self) -> StateSubscription:
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
        if self._waiter is not None:
            self._waiter.close()

    async def __anext__(self) -> StateSnapshot:
        """Return the next state.

        Raises:
            StopAsyncIteration: It was closed, or its client was.
            AgentRuntimeError: The agent cannot be read, such as one of an unknown class.
        """
        while True:
            waiter = await self._begun()
            if self._is_closed or waiter.is_closed:
                raise StopAsyncIteration
            if waiter.has_restarted:
                waiter.has_restarted, self._version = False, 0
            snapshot = await self._look()
            if snapshot is not None and snapshot.version < self._version:
                self._version = 0  # the agent was destroyed
            if snapshot is not None and snapshot.version > self._version:
                self._version = snapshot.version
                return snapshot
            await waiter.wait(_ASK_SECONDS if self._channel.storage is None else _LOOK_SECONDS)

    async def _begun(self) -> Waiter:
        if self._waiter is None:
            # Before the first look: what is committed after it wakes us.
            self._waiter = await self._channel.wait_for_changes(self._agent.ref)
        return self._waiter

    async def _look(self) -> StateSnapshot | None:
        is_first = self._version < 0
        try:
            return await (self._agent.get_state() if is_first else self._agent.peek())
        except (UnavailableError, StorageUnavailableError) as error:
            if is_first:
                raise
            logger.warning("%s: its subscription waits: %s", self._agent.ref, error)
            return None
