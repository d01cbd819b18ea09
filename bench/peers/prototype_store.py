"""The bare prototype's store: a counter and its idempotency rows, one closure per transaction."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

Operation = dict[str, Any]
"""`{"id": idempotency key, "by": amount}`."""
Job = tuple[str, list[Operation], "asyncio.Future[list[int]]"]

_MAX_JOBS = 256
_TABLES = """
CREATE TABLE IF NOT EXISTS counters (agent TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS receipts (
    agent TEXT, key TEXT, result TEXT NOT NULL, PRIMARY KEY (agent, key)
) WITHOUT ROWID;
"""


class PrototypeStore:
    """SQLite on one thread; jobs of all agents that wait share a transaction, a savepoint each."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.executescript(_TABLES)
        self._thread = ThreadPoolExecutor(1)
        self._waiting: list[Job] = []
        self._runner: asyncio.Task[None] | None = None

    async def apply(self, agent: str, operations: list[Operation]) -> list[int]:
        """Apply operations of one agent and return a result each, once they are on disk."""
        future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        self._waiting.append((agent, operations, future))
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._drain())
        return await future

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            jobs, self._waiting = self._waiting[:_MAX_JOBS], self._waiting[_MAX_JOBS:]
            try:
                results = await loop.run_in_executor(self._thread, self._transaction, jobs)
            except sqlite3.Error as error:
                results = [error] * len(jobs)
            for (_, _, future), result in zip(jobs, results, strict=True):
                if future.done():
                    continue
                if isinstance(result, sqlite3.Error):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def _transaction(self, jobs: list[Job]) -> list[list[int] | sqlite3.Error]:
        run = self._connection.execute
        results: list[list[int] | sqlite3.Error] = []
        run("BEGIN IMMEDIATE")
        for agent, operations, _ in jobs:
            run("SAVEPOINT job")
            try:
                results.append([self._increment(agent, operation) for operation in operations])
            except sqlite3.Error as error:
                run("ROLLBACK TO job")
                results.append(error)
            run("RELEASE job")
        run("COMMIT")
        return results

    def _increment(self, agent: str, operation: Operation) -> int:
        run = self._connection.execute
        known = run(
            "SELECT result FROM receipts WHERE agent = ? AND key = ?", (agent, operation["id"])
        ).fetchone()
        if known is not None:
            return int(json.loads(known[0]))
        (count,) = run(
            "INSERT INTO counters VALUES (?, ?) ON CONFLICT (agent) DO UPDATE SET "
            "count = count + excluded.count RETURNING count",
            (agent, operation["by"]),
        ).fetchone()
        run("INSERT INTO receipts VALUES (?, ?, ?)", (agent, operation["id"], json.dumps(count)))
        return int(count)
