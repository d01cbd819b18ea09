"""Another agent, seen from inside a handler: every change and call is a journalled effect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from agent_runtime.json_value import Json
from agent_runtime.mutation import Receipt

if TYPE_CHECKING:
    from agent_runtime.client.handle import AgentHandle
    from agent_runtime.handlers.effects import Journal
    from agent_runtime.hosting.state_reader import StateSnapshot


class RemoteAgent:
    """What `self.agent(class_name, name)` returns."""

    def __init__(self, journal: Callable[[], Journal], handle: AgentHandle) -> None:
        # Asked for each time: each task of a handler has a journal of its own.
        self._journal = journal
        self._handle = handle

    async def call(self, method: str, *args: Json) -> Json:
        """Call a callable method and return its result; a repeat returns the recorded one.

        Raises:
            HandlerError: The method raised.
            InvalidRequestError: There is no such class or method, or it is not callable.
        """
        journal = self._journal()

        async def run(key: str) -> Json:
            call = await self._handle.start_call(
                method,
                *args,
                idempotency_key=key,
                chain=(*journal.chain, journal.key),
                hook_depth=journal.hook_depth,
            )
            return await call.result()

        kind = f"call {self._handle.ref}.{method}"
        return await journal.effect(kind, list(args), run)

    async def set_state(self, state: Json) -> Receipt:
        """Replace the other agent's state."""
        return await self._change(
            "set_state", state, lambda key: self._handle.set_state(state, idempotency_key=key)
        )

    async def merge_state(self, partial: dict[str, Json]) -> Receipt:
        """Replace top-level keys of the other agent's state."""
        return await self._change(
            "merge_state",
            partial,
            lambda key: self._handle.merge_state(partial, idempotency_key=key),
        )

    async def reset_state(self) -> Receipt:
        """Put the other agent's `initial_state` back."""
        return await self._change(
            "reset_state", None, lambda key: self._handle.reset_state(idempotency_key=key)
        )

    async def destroy(self) -> Receipt:
        """Destroy the other agent."""
        return await self._change(
            "destroy", None, lambda key: self._handle.destroy(idempotency_key=key)
        )

    async def get_state(self) -> StateSnapshot:
        """Return the other agent's present state; not journalled."""
        return await self._handle.get_state()

    async def _change(
        self, name: str, payload: Json, send: Callable[[str], Awaitable[Receipt]]
    ) -> Receipt:
        async def run(key: str) -> Json:
            return (await send(key)).version

        version = await self._journal().effect(f"{name} {self._handle.ref}", payload, run)
        return Receipt(version)
