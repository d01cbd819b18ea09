"""Context blocks, searchable entries and the frozen prompt in this library's own storage (17)."""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable

from agent_runtime.errors import InvalidRequestError
from agent_runtime.json_value import Json
from agent_runtime.session.context_provider import StoredPrompt
from agent_runtime.session.given_text import MAX_ID_BYTES, byte_length, given_text
from agent_runtime.session.session_store import SessionStore, session_ref
from agent_runtime.storage.session_protocol import Namespace, PromptRow, SessionWrites
from agent_runtime.storage.session_registry import session_namespace, shared_namespace

SEARCH_RESULTS = 10


@runtime_checkable
class SessionBound(Protocol):
    """A provider that belongs to the session it is given to, unless one was chosen for it.

    One set-up may serve many sessions, which must not see each other's contents.
    """

    @property
    def has_session(self) -> bool:
        """Whether a session was chosen for it."""

    def for_session(self, session_id: str) -> Self:
        """Return one like it for another session."""


class StoredContextProvider:
    """A writable block in a session's storage.

    Args:
        label: The block's label; taken from the block it is given to unless told.
        session_id: Whose block; by default that of the session it is given to. Sessions that are
            given one of the same id share it.
    """

    def __init__(
        self, store: SessionStore, label: str = "", *, session_id: str | None = None
    ) -> None:
        self._store = store
        self._label = label
        self._ref = session_ref(store, session_id or "")
        self.has_session = session_id is not None
        """Whether a session was chosen for it."""

    def for_session(self, session_id: str) -> StoredContextProvider:
        """Return one for another session's block."""
        return StoredContextProvider(self._store, self._label, session_id=session_id)

    def init(self, label: str) -> None:
        """Take the block's label unless one was given."""
        self._label = self._label or label

    async def get(self) -> str | None:
        """Return the content, None if it was never set."""
        row = await self._store.reads.context(self._ref, self._label)
        return None if row is None else row.content

    async def set(self, content: str) -> None:
        """Replace the content."""
        await self._put(content, None)

    async def compare_and_set(self, expected: str | None, content: str) -> bool:
        """Replace the content only if it is still `expected`, None for never set."""
        row = await self._store.reads.context(self._ref, self._label)
        if (None if row is None else row.content) != expected:
            return False
        return await self._put(content, 0 if row is None else row.version)

    async def _put(self, content: str, expected_version: int | None) -> bool:
        async def unit(sessions: SessionWrites) -> Json:
            return await sessions.context.put_context(
                self._ref, self._label, content, expected_version=expected_version
            )

        payload = [self._ref.session_id, self._label, content]
        return bool(await self._store.write("set_context", payload, unit))


class StoredPromptStore:
    """A session's frozen prompt with the fingerprint of what it was made from.

    Args:
        session_id: Whose prompt; by default that of the session it is given to.
    """

    def __init__(self, store: SessionStore, *, session_id: str | None = None) -> None:
        self._store = store
        self._ref = session_ref(store, session_id or "")
        self.has_session = session_id is not None
        """Whether a session was chosen for it."""

    def for_session(self, session_id: str) -> StoredPromptStore:
        """Return one for another session's prompt."""
        return StoredPromptStore(self._store, session_id=session_id)

    async def get_prompt(self) -> StoredPrompt | None:
        """Return the stored prompt, None if there is none."""
        row = await self._store.reads.prompt(self._ref)
        return None if row is None else StoredPrompt(row.prompt, row.fingerprint)

    async def set_prompt(self, prompt: StoredPrompt) -> None:
        """Replace the stored prompt."""
        row = PromptRow(prompt.prompt, prompt.fingerprint)

        async def unit(sessions: SessionWrites) -> Json:
            await sessions.context.put_prompt(self._ref, row)

        payload = [self._ref.session_id, prompt.prompt, prompt.fingerprint]
        await self._store.write("set_prompt", payload, unit, is_derived=True)


class StoredSearchProvider:
    """A writable searchable block: entries under keys, found by their words.

    Args:
        session_id: Whose entries these are; other sessions never find them. By default that of the
            session the block is given to, else the default one.
        shared_as: Share the entries with every block of the owner that names the same.
    """

    def __init__(
        self,
        store: SessionStore,
        *,
        session_id: str | None = None,
        shared_as: str | None = None,
    ) -> None:
        self._store = store
        self._shared_as = shared_as
        self.has_session = session_id is not None
        """Whether a session was chosen for it."""
        self._name = (
            session_namespace(session_id or "")
            if shared_as is None
            else shared_namespace(shared_as)
        )
        self._namespace = Namespace(store.agent, self._name, "")

    def for_session(self, session_id: str) -> StoredSearchProvider:
        """Return one for another session, which shares the entries only if these are shared."""
        return StoredSearchProvider(self._store, session_id=session_id, shared_as=self._shared_as)

    def init(self, label: str) -> None:
        """Keep the entries apart from those of the session's other blocks."""
        self._namespace = Namespace(self._store.agent, self._name, label)

    async def get(self) -> str | None:
        """Return how many entries there are, None for none."""
        count = await self._store.reads.count_entries(self._namespace)
        return f"{count} entries indexed." if count else None

    async def set(self, key: str, content: str) -> None:
        """Add or replace an entry.

        Raises:
            InvalidRequestError: The key or the content is no text, or the key has more than 2,000
                bytes of UTF-8.
        """
        namespace = self._namespace
        given_text(content, "an entry's content")
        if (size := byte_length(given_text(key, "an entry's key"))) > MAX_ID_BYTES:
            raise InvalidRequestError(
                f"an entry's key has at most {MAX_ID_BYTES} bytes of UTF-8, not {size}"
            )

        async def unit(sessions: SessionWrites) -> Json:
            await sessions.context.put_entry(namespace, key, content)

        payload = [namespace.name, namespace.label, key, content]
        await self._store.write("set_entry", payload, unit)

    async def search(self, query: str) -> str | None:
        """Return up to ten entries that hold every word of the query, None for none."""
        found = await self._store.reads.search_entries(self._namespace, query, SEARCH_RESULTS)
        return "\n\n".join(f"[{key}]\n{content}" for key, content in found) or None
