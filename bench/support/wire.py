"""Clients of the wire, many in one process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from types import TracebackType

import orjson
from websockets.asyncio.client import ClientConnection, connect

_numbers = itertools.count()


class Room:
    """Clients of one agent: one that writes and some that watch.

    Args:
        stalled: So many more clients that never read.
    """

    def __init__(
        self, port: int, name: str, watchers: int, *, stalled: int = 0, agent: str = "counter"
    ) -> None:
        self._url = f"ws://127.0.0.1:{port}/agents/{agent}/{name}"
        self._counts = (watchers, stalled)
        self._stack = contextlib.AsyncExitStack()
        self.writer: ClientConnection
        self.watchers: list[ClientConnection] = []

    async def __aenter__(self) -> Room:
        watchers, stalled = self._counts
        self.writer = await self._connect()
        for _ in range(watchers):
            self.watchers.append(await self._connect())
        for _ in range(stalled):
            silent = await self._connect()
            silent.transport.pause_reading()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def set_state(self, count: int, *, padding: str = "") -> list[float]:
        """Send a state; return the seconds until each watcher has it."""
        start = time.perf_counter()
        arrivals = [asyncio.create_task(_until(one, count, start)) for one in self.watchers]
        state = {"count": count, "padding": padding} if padding else {"count": count}
        frame = {"type": "cf_agent_state", "state": state}
        await self.writer.send(orjson.dumps(frame).decode())
        return list(await asyncio.gather(*arrivals))

    async def call(self, method: str, *args: object) -> float:
        """Call a method; return the seconds until its answer is in."""
        call_id = f"c{next(_numbers)}"
        start = time.perf_counter()
        frame = {"type": "rpc", "id": call_id, "method": method, "args": args}
        await self.writer.send(orjson.dumps(frame).decode())
        while orjson.loads(await self.writer.recv()).get("id") != call_id:
            continue
        return time.perf_counter() - start

    async def _connect(self) -> ClientConnection:
        client = await self._stack.enter_async_context(
            connect(f"{self._url}?_pk=k{next(_numbers)}", close_timeout=0.1, ping_interval=None)
        )
        # An agent whose state was never set sends no state in its greeting.
        while "cf_agent_mcp_servers" not in str(await client.recv()):
            continue
        return client


async def _until(client: ClientConnection, count: int, start: float) -> float:
    while True:
        frame = orjson.loads(await client.recv())
        if frame.get("type") == "cf_agent_state" and frame["state"].get("count") == count:
            return time.perf_counter() - start
