"""Providers for a session's messages and blocks over a connection that the user brings (21)."""

from __future__ import annotations

from agent_runtime.session.postgres_connection import PostgresConnection
from agent_runtime.session.postgres_session_store import PostgresSessionStore
from agent_runtime.session.stored_context import StoredContextProvider, StoredSearchProvider
from agent_runtime.session.stored_session import StoredSessionProvider

_NOTHING_FOUND = "No results found."


class PostgresSessionProvider(StoredSessionProvider):
    """One session's messages, for `Session.create(provider)` or by itself.

    Over it, blocks and a cached prompt need providers of their own; `Session.create` over a
    `PostgresSessionStore` makes them itself.

    Args:
        connection: See `PostgresSessionStore`, whose errors are these.
        session_id: `""` for the owner's default session.
        has_strict_parents: Refuse an append below an unknown message, instead of starting a root.
    """

    def __init__(
        self,
        connection: PostgresConnection,
        session_id: str = "",
        *,
        owner: str = "default",
        has_strict_parents: bool = False,
    ) -> None:
        store = PostgresSessionStore(connection, owner=owner)
        super().__init__(store, session_id, has_strict_parents=has_strict_parents)


class PostgresContextProvider(StoredContextProvider):
    """A writable text, for a block or as the store of a cached prompt.

    Args:
        connection: See `PostgresSessionStore`, whose errors are these.
        label: Names the text among those of the session; sessions that are given the same label
            and `session_id` share it.
    """

    def __init__(
        self,
        connection: PostgresConnection,
        label: str,
        *,
        session_id: str = "",
        owner: str = "default",
    ) -> None:
        store = PostgresSessionStore(connection, owner=owner)
        super().__init__(store, label, session_id=session_id)


class PostgresSearchProvider(StoredSearchProvider):
    """A writable searchable block.

    Args:
        connection: See `PostgresSessionStore`, whose errors are these.
        session_id: Whose entries these are, see `StoredSearchProvider`.
        shared_as: Share the entries with every block of the owner that names the same.
    """

    def __init__(
        self,
        connection: PostgresConnection,
        *,
        session_id: str | None = None,
        owner: str = "default",
        shared_as: str | None = None,
    ) -> None:
        self._connection = connection
        self._owner = owner
        store = PostgresSessionStore(connection, owner=owner)
        super().__init__(store, session_id=session_id, shared_as=shared_as)

    def for_session(self, session_id: str) -> PostgresSearchProvider:
        """See `StoredSearchProvider.for_session`."""
        return PostgresSearchProvider(
            self._connection,
            session_id=session_id,
            owner=self._owner,
            shared_as=self._shared_as,
        )

    async def search(self, query: str) -> str | None:
        """Return up to ten entries that hold every word of the query.

        `No results found.` if there are none, None for a blank query.
        """
        found = await super().search(query)
        return found or (_NOTHING_FOUND if query.strip() else None)
