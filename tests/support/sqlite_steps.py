"""Counting what SQLite does: statements, and steps of its virtual machine, never time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median

from agent_runtime.storage.sqlite import SqliteStorage


@dataclass(frozen=True)
class Work:
    """What some operation took."""

    statements: float
    steps: float


class StepCounter:
    """Counts on all connections of a storage."""

    def __init__(self, storage: SqliteStorage) -> None:
        self._connections = [storage._connection, *storage._readers.connections]
        self._statements = 0
        self._steps = 0

    async def start(self) -> None:
        """Begin to count."""
        for connection in self._connections:
            await connection.set_progress_handler(self._step, 1)
            await connection.set_trace_callback(self._statement)

    async def work(self, operation: Callable[[], Awaitable[object]], times: int = 5) -> Work:
        """Run an operation some times and return the median of what it took."""
        counts = []
        for _ in range(times):
            self._statements = self._steps = 0
            await operation()
            counts.append((self._statements, self._steps))
        return Work(median(each[0] for each in counts), median(each[1] for each in counts))

    def _step(self) -> int:
        self._steps += 1
        return 0

    def _statement(self, text: str) -> None:
        # The full-text index tells of its own statements as comments.
        if not text.startswith("--"):
            self._statements += 1
