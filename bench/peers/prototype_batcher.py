"""The bare prototype's client: one update in flight per agent, carrying all that arrived."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio.client import WorkflowHandle

from bench.peers.prototype_store import Operation

_MAX_OPERATIONS = 500


class PrototypeBatcher:
    """Batches operations of one agent; without retries, limits or anything else of a product."""

    def __init__(self, handle: WorkflowHandle[Any, Any]) -> None:
        self._handle = handle
        self._waiting: list[tuple[Operation, asyncio.Future[int]]] = []
        self._is_busy = False

    def submit(self, operation: Operation) -> asyncio.Future[int]:
        """Queue an operation and return its coming result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        self._waiting.append((operation, future))
        if not self._is_busy:
            self._is_busy = True
            self._runner = loop.create_task(self._drain())
        return future

    async def _drain(self) -> None:
        while self._waiting:
            batch = self._waiting[:_MAX_OPERATIONS]
            self._waiting = self._waiting[_MAX_OPERATIONS:]
            try:
                results = await self._handle.execute_update(
                    "batch", [operation for operation, _ in batch]
                )
            except Exception as error:  # each caller gets it
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)
        self._is_busy = False
