"""Clients of PostgreSQL as users may bring them, each over one connection."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from agent_runtime.json_value import Json
from agent_runtime.storage.postgres_spelling import number_marks


@dataclass
class Result:
    """What a driver answers."""

    rows: list[dict[str, Json]]


class DriverClient:
    """`query(text, values)`; rows come by name, so columns of one name are lost."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self.seen: list[tuple[str, list[Json]]] = []

    async def query(self, text: str, values: Sequence[Json]) -> Result:
        """Note a statement and run it."""
        self.seen.append((text, [*values]))
        return Result([dict(row) for row in await self._connection.fetch(text, *values)])


class MinimalConnection:
    """`execute(query, args)` with `?`; rows come as tuples in an object."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self.seen: list[tuple[str, Sequence[Json]]] = []

    async def execute(self, query: str, args: Sequence[Json]) -> Any:
        """Note a statement and run it, with the placeholders of PostgreSQL."""
        self.seen.append((query, args))
        text, count = number_marks(query)
        assert count == len(args) and "$" not in query
        return type("Answer", (), {"rows": await self._connection.fetch(text, *args)})


class BlockingClient:
    """`query(text, values)` that returns the rows themselves once they are there."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._connection = self._wait(asyncpg.connect(url))

    def query(self, text: str, values: Sequence[Json]) -> list[Json]:
        """Run a statement."""
        rows: list[Json] = self._wait(self._connection.fetch(text, *values))
        return rows

    def close(self) -> None:
        """Close the connection."""
        self._wait(self._connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, work: Any) -> Any:
        async def run() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()
