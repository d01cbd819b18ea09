# mypy: disable-error-code="import-not-found"
"""Conversations in the SQLite session of `openai-agents`, a table of items without branches."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agents import SQLiteSession

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.peers.conversation_line import serve_conversations


class SqliteSessions:
    """One session object for each conversation."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._sessions: dict[str, SQLiteSession] = {}

    async def append(self, name: str, texts: list[str]) -> object:
        """Append messages of the user."""
        return await self._session(name).add_items(
            [{"role": "user", "content": text} for text in texts]
        )

    async def history(self, name: str) -> object:
        """Return all messages."""
        return await self._session(name).get_items()

    async def last(self, name: str, count: int) -> object:
        """Return the last messages."""
        return await self._session(name).get_items(limit=count)

    def _session(self, name: str) -> SQLiteSession:
        if name not in self._sessions:
            self._sessions[name] = SQLiteSession(name, self._path)
        return self._sessions[name]


asyncio.run(serve_conversations(SqliteSessions(str(Path(sys.argv[1]) / "openai_agents.db"))))
