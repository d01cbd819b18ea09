"""Connections: flags, raw frames, failures and delays at connect."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_runtime import Agent, callable
from agent_runtime.agent_connection import Connection, Message
from agent_runtime.caller import current_caller
from agent_runtime.http_message import Request


def flag(request: Request, name: str) -> str | None:
    """Return a query value of the upgrade."""
    return next(iter(request.query.get(name, [])), None)


class NoIdentityAgent(Agent):
    """Says not who it is."""

    sends_identity_on_connect = False
    initial_state = {"count": 0}


class LoudAgent(Agent):
    """Reached by a name in capitals too."""

    initial_state = {"count": 0}


class Flagged(Agent):
    """Reads the flags of its connections from their query."""

    initial_state = {"count": 0}

    def should_connection_be_readonly(self, connection: Connection, request: Request) -> bool:
        """Ask the query."""
        return flag(request, "readonly") == "true"

    @callable()
    async def increment(self) -> int:
        """Count."""
        await self.set_state({"count": self.state["count"] + 1})
        return int(self.state["count"])

    @callable()
    def getState(self) -> Any:
        """Return the state."""
        return self.state

    @callable()
    def me(self) -> str | None:
        """Return the caller's connection id."""
        connection = current_caller().connection
        return None if connection is None else connection.id

    @callable()
    async def setReadonly(self, connection_id: str, readonly: bool) -> Any:
        """Set the flag of a connection."""
        connection = await self.get_connection(connection_id)
        if connection is None:
            return None
        await connection.set_readonly(readonly)
        return {"state": connection.state, "readonly": connection.is_readonly}

    @callable()
    async def flags(self, connection_id: str) -> Any:
        """Return what is known of a connection."""
        connection = await self.get_connection(connection_id)
        if connection is None:
            return None
        return {
            "state": connection.state,
            "readonly": connection.is_readonly,
            "protocol": connection.is_protocol_enabled,
        }

    @callable()
    async def attach(self, connection_id: str, value: Any, adds: bool = False) -> Any:
        """Attach a value to a connection, in place of what is there or beside it."""
        connection = await self.get_connection(connection_id)
        if connection is None:
            return None
        await connection.set_state((lambda present: {**present, **value}) if adds else value)
        return connection.state


class ReadonlyAgent(Flagged):
    """Has connections that may not change the state."""


class ProtocolAgent(Flagged):
    """Has connections that get no frames of the protocol."""

    def should_send_protocol_messages(self, connection: Connection, request: Request) -> bool:
        """Ask the query."""
        return flag(request, "protocol") != "false"

    @callable()
    async def shout(self, message: Any) -> None:
        """Send to all."""
        await self.broadcast(message)


class EchoAgent(Agent):
    """Sends back what is no frame of the protocol, and remembers how connections closed."""

    initial_state = {"count": 0}

    def __init__(self) -> None:
        self.closed: list[Any] = []

    async def on_message(self, connection: Connection, message: Message) -> None:
        """Send it back."""
        if message == "throw":
            raise RuntimeError("boom from onMessage")
        is_text = isinstance(message, str)
        await connection.send({"type": "echo", "text": message} if is_text else message)

    async def on_close(
        self, connection: Connection, code: int, reason: str, was_clean: bool
    ) -> None:
        """Remember it."""
        self.closed.append({"code": code, "reason": reason, "wasClean": was_clean})

    @callable()
    def closes(self) -> list[Any]:
        """Return how connections have closed."""
        return self.closed


class ThrowsOnConnectAgent(Agent):
    """Lets nobody in."""

    initial_state = {"count": 0}

    async def on_connect(self, connection: Connection, request: Request) -> None:
        """Fail."""
        raise RuntimeError("boom from onConnect")


class SetsStateOnConnectAgent(Agent):
    """Makes its state when the first client comes."""

    def should_connection_be_readonly(self, connection: Connection, request: Request) -> bool:
        """Ask the query."""
        return flag(request, "readonly") == "true"

    async def on_connect(self, connection: Connection, request: Request) -> None:
        """Set the state if there is none."""
        if not self.state:
            await self.set_state({"initialized": True})


class SlowConnectAgent(Agent):
    """Takes its time."""

    initial_state = {"count": 0}

    async def on_connect(self, connection: Connection, request: Request) -> None:
        """Wait."""
        await asyncio.sleep(int(flag(request, "ms") or 0) / 1000)
