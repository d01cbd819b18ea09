"""Floor of a write: one aiosqlite transaction, statement by statement, synced at its commit."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import aiosqlite

_TABLES = """
CREATE TABLE IF NOT EXISTS counters (
    agent TEXT PRIMARY KEY, count INTEGER NOT NULL, version INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS receipts (
    agent TEXT, key TEXT, version INTEGER NOT NULL, PRIMARY KEY (agent, key)
) WITHOUT ROWID;
"""


class PlainTransactions:
    """A counter with idempotency keys, as one writes it by hand; `async with` opens the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def __aenter__(self) -> PlainTransactions:
        self._connection = await aiosqlite.connect(self._path, isolation_level=None)
        await self._connection.execute_fetchall("PRAGMA journal_mode = WAL")
        await self._connection.execute_fetchall("PRAGMA synchronous = FULL")
        await self._connection.executescript(_TABLES)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._connection.close()

    async def increment(self, agent: str, key: str) -> int:
        """Increment an agent's counter once per key and return the version."""
        run = self._connection.execute_fetchall
        await run("BEGIN IMMEDIATE")
        try:
            known = list(
                await run("SELECT version FROM receipts WHERE agent = ? AND key = ?", (agent, key))
            )
            if known:
                version = int(known[0][0])
            else:
                [row] = await run(
                    "INSERT INTO counters VALUES (?, 1, 1) ON CONFLICT (agent) DO UPDATE SET "
                    "count = count + 1, version = version + 1 RETURNING version",
                    (agent,),
                )
                version = int(row[0])
                await run("INSERT INTO receipts VALUES (?, ?, ?)", (agent, key, version))
            await run("COMMIT")
        except BaseException:
            await run("ROLLBACK")
            raise
        return version

    async def read(self, agent: str) -> int:
        """Return an agent's counter."""
        [row] = await self._connection.execute_fetchall(
            "SELECT count FROM counters WHERE agent = ?", (agent,)
        )
        return int(row[0])
