"""A block in which a model searches the messages of all registered sessions (contract 19.4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from agent_runtime.session.session_provider import SearchHit
from agent_runtime.session.tools import SESSION_SEARCH_LIMIT, hits_text

HISTORY_DESCRIPTION = "Cross-session conversation history"


class HistorySearchProvider:
    """A read-only search provider over a manager's sessions.

    Args:
        count: Returns how many sessions there are.
        search: Given the query and a limit, returns the hits, best first.
    """

    def __init__(
        self,
        count: Callable[[], Awaitable[int]],
        search: Callable[[str, int], Awaitable[Sequence[SearchHit]]],
    ) -> None:
        self._count = count
        self._search = search

    async def get(self) -> str | None:
        """Return how many sessions there are, None for none."""
        count = await self._count()
        if count == 0:
            return None
        return f"{count} {'session' if count == 1 else 'sessions'} available for search."

    async def search(self, query: str) -> str | None:
        """Return the messages that hold every word of the query, None for none."""
        return hits_text(await self._search(query, SESSION_SEARCH_LIMIT))
