"""Methods of every kind: plain, slow, failing, streaming."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from agent_runtime import Agent, callable
from agent_runtime.agent_connection import ResponseStream
from tests.e2e.agents.pace import pause

# Methods have the names that the JavaScript clients call.
EPOCH = datetime.fromtimestamp(0, UTC)


class RpcAgent(Agent):
    """What a call can come to."""

    initial_state = {"value": 0}

    @callable()
    def add(self, a: Any, b: Any) -> Any:
        """Add."""
        return a + b

    @callable()
    async def later(self, ms: int) -> str:
        """Answer after a while."""
        await pause(ms)
        return "done"

    @callable()
    def fail(self, message: str) -> None:
        """Raise."""
        raise RuntimeError(message)

    @callable()
    async def failLater(self, message: str, ms: int) -> None:
        """Raise after a while."""
        await pause(ms)
        raise RuntimeError(message)

    @callable()
    async def hang(self) -> None:
        """Never answer."""
        await asyncio.Event().wait()

    @callable()
    def nothing(self) -> None:
        """Return nothing at all."""

    @callable()
    def returnsNull(self) -> object:
        """Return None as a value."""
        return None

    @callable()
    def returnsDate(self) -> dict[str, datetime]:
        """Return what has a JSON form."""
        return {"at": EPOCH}

    @callable()
    def returnsBigInt(self) -> dict[str, int]:
        """Return an integer beyond 64 bits, which has no JSON form here."""
        return {"n": 10**30}

    @callable(streaming=True)
    async def streamNumbers(self, stream: ResponseStream, n: int) -> None:
        """Send numbers."""
        for number in range(n):
            await stream.send(number)
        await stream.end(n)

    @callable(streaming=True)
    async def streamNoFinal(self, stream: ResponseStream) -> None:
        """End without a last part."""
        await stream.send("only")
        await stream.end()

    @callable(streaming=True)
    async def streamThrows(self, stream: ResponseStream) -> None:
        """Raise with the stream open."""
        await stream.send("chunk1")
        raise RuntimeError("Stream failed")

    @callable(streaming=True)
    async def streamThrowsAtOnce(self, stream: ResponseStream) -> None:
        """Raise before anything was sent."""
        raise RuntimeError("Immediate failure")

    @callable(streaming=True)
    async def streamGraceful(self, stream: ResponseStream) -> None:
        """Close with an error."""
        await stream.send("chunk1")
        await stream.error("Graceful error")

    @callable(streaming=True)
    async def streamDoubleClose(self, stream: ResponseStream) -> None:
        """Go on after the end."""
        await stream.send("chunk1")
        await stream.error("First close")
        await stream.end("ignored")
        await stream.send("ignored")
        await stream.error("ignored")

    @callable(streaming=True)
    async def streamNeverEnds(self, stream: ResponseStream) -> None:
        """Return with the stream open."""
        await stream.send("chunk1")

    @callable(streaming=True)
    async def streamSlow(self, stream: ResponseStream, items: list[str], ms: int) -> None:
        """Send with pauses."""
        for item in items:
            await pause(ms)
            await stream.send(item)
        await stream.end("complete")

    def secret(self) -> str:
        """Not marked."""
        return "secret"

    @property
    def computed(self) -> int:
        """No method."""
        return 1
