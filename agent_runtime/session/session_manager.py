"""A registry of named sessions in one store, and what concerns several of them (contract 19)."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Sequence
from typing import Self

from agent_runtime.compaction.compact_context import CompactFunction, SessionTokenCounter
from agent_runtime.errors import InvalidRequestError, SessionSetupError
from agent_runtime.json_value import Json, fingerprint, from_json, to_json
from agent_runtime.session import session_fork
from agent_runtime.session.compaction_jobs import CompactionMode
from agent_runtime.session.context_provider import ContextProvider
from agent_runtime.session.given_text import given_text
from agent_runtime.session.history_search import HistorySearchProvider
from agent_runtime.session.id_list import id_list
from agent_runtime.session.manager_create import Create
from agent_runtime.session.manager_setup import (
    ManagerListener,
    ManagerSetup,
    PromptStoreFactory,
    ProviderFactory,
)
from agent_runtime.session.message import Message
from agent_runtime.session.parent import AUTO, Parent
from agent_runtime.session.session import Session
from agent_runtime.session.session_cache import SessionCache
from agent_runtime.session.session_events import MessagesCleared
from agent_runtime.session.session_provider import Compaction, SearchHit
from agent_runtime.session.session_record import SessionRecord, checked_name, session_record
from agent_runtime.session.session_setup import SessionOwner, is_owner, store_of
from agent_runtime.session.session_status import CompactionErrorHandler
from agent_runtime.session.session_store import SessionStore, session_ref
from agent_runtime.session.stored_session import check_search, search_hit
from agent_runtime.session.tool import Tool
from agent_runtime.session.tools import session_search_tool
from agent_runtime.session.usage_limits import check_sums, check_usage
from agent_runtime.storage.session_protocol import SessionWrites

CACHED_SESSIONS = 128


class SessionManager:
    """Named sessions of an agent or session store, all set up alike.

    Make it with `SessionManager.create(agent)` and set it up by chaining. The registry and all that
    lasts of the sessions are in the store, so managers in any number of processes see the same.

    Operations with an `operation_key` have their effect once: repeated with the same key and the
    same arguments they return what the first one did, with other arguments they raise
    IdempotencyConflictError.

    Args:
        make: Given a session id, makes its object in another way than the chain says, or returns
            None.
    """

    create = Create()

    def __init__(
        self,
        source: SessionOwner | SessionStore,
        *,
        make: Callable[[str], Session | None] | None = None,
    ) -> None:
        if not is_owner(source) and store_of(source) is None:
            raise SessionSetupError(
                f"sessions cannot be managed over {type(source).__name__}; give an agent or a "
                "session store"
            )
        self._source = source
        self._setup = ManagerSetup(source)
        self._make_otherwise = make
        self._sessions = SessionCache(self._make, CACHED_SESSIONS)

    @classmethod
    def begin(cls, source: SessionOwner | SessionStore) -> Self:
        """Begin a manager; the same as `SessionManager.create`.

        Raises:
            SessionSetupError: `source` is neither an agent nor a session store.
        """
        return cls(source)

    def with_context(
        self,
        label: str,
        *,
        description: str | None = None,
        max_tokens: int | None = None,
        provider: ContextProvider | ProviderFactory | None = None,
    ) -> Self:
        """Give every session a context block.

        Args:
            provider: A function (session_id) -> provider, or one provider that all sessions share;
                by default each session keeps its own in the store. A `StoredSearchProvider` is
                shared only if it says `shared_as`.

        Raises:
            SessionSetupError: There is a block of that label, or a session was used already.
        """
        self._setup.with_context(label, description, max_tokens, provider)
        return self

    def with_cached_prompt(self, provider: PromptStoreFactory | None = None) -> Self:
        """Keep every session's frozen prompt in the store, or with a provider of its own.

        Args:
            provider: A function (session_id) -> prompt store.

        Raises:
            SessionSetupError: It is a prompt store itself, which would give each session the
                others' prompt; or a session was used already.
        """
        self._setup.with_cached_prompt(provider)
        return self

    def with_searchable_history(self, label: str) -> Self:
        """Give every session a block in which the model searches all registered sessions.

        Raises:
            SessionSetupError: There is a block of that label, or a session was used already.
        """
        provider = HistorySearchProvider(self._count, self.search)
        self._setup.with_searchable_history(label, provider)
        return self

    def on_compaction(self, function: CompactFunction) -> Self:
        """Register what summarizes a part of any session's history; at any time.

        Raises:
            SessionSetupError: It keeps more than the threshold of `compact_after`.
        """
        self._setup.on_compaction(function)
        return self._apply()

    def compact_after(
        self,
        threshold: int,
        *,
        token_counter: SessionTokenCounter | None = None,
        mode: CompactionMode | None = None,
    ) -> Self:
        """Compact each session by itself once it is above a number of tokens; at any time.

        Args:
            mode: See `Session.compact_after`.

        Raises:
            SessionSetupError: The compaction function keeps more than that.
        """
        self._setup.compact_after(threshold, token_counter, mode)
        return self._apply()

    def on_compaction_error(self, handler: CompactionErrorHandler) -> Self:
        """Register who is told of automatic compactions that fail; at any time."""
        self._setup.on_compaction_error(handler)
        return self._apply()

    def on_change(self, listener: ManagerListener) -> Self:
        """Register one observer of all sessions, given the session's id and the event."""
        self._setup.listener = listener
        return self._apply()

    async def register(
        self,
        name: str,
        parent_session_id: str | None = None,
        model: str | None = None,
        source: str | None = None,
        *,
        operation_key: str | None = None,
    ) -> SessionRecord:
        """Register a new session under a new id; on a manager the same as `create`.

        Args:
            name: Need not be unique.

        Raises:
            InvalidRequestError: The name is no text, or another argument neither a text nor None.
            IdempotencyConflictError: The operation key was used for something else.
        """

        async def work(sessions: SessionWrites) -> Json:
            record = session_fork.new_record(
                name, parent_session_id=parent_session_id, model=model, source=source
            )
            stored = await sessions.registry.create_record(self._store.agent, record)
            return session_record(stored).to_json()

        arguments = [name, parent_session_id, model, source]
        return SessionRecord(**await self._once("create_session", arguments, operation_key, work))

    async def get(self, session_id: str) -> SessionRecord | None:
        """Return a session's record, None if it is not registered."""
        row = await self._store.reads.record(session_ref(self._store, session_id))
        return None if row is None else session_record(row)

    async def list(self, *, limit: int = 1000, offset: int = 0) -> list[SessionRecord]:
        """Return the records of registered sessions, the last changed one first.

        Raises:
            InvalidRequestError: `limit` or `offset` is negative.
        """
        if limit < 0 or offset < 0:
            raise InvalidRequestError(f"limit {limit} and offset {offset} must be 0 or more")
        rows = await self._store.reads.records(self._store.agent, limit=limit, offset=offset)
        return [session_record(row) for row in rows]

    async def rename(self, session_id: str, name: str) -> None:
        """Give a session another name; nothing happens if it is not registered.

        Raises:
            InvalidRequestError: The name is no text.
        """
        checked_name(name)

        async def work(sessions: SessionWrites) -> Json:
            await sessions.registry.update_record(self._store.agent, session_id, name=name)

        await self._store.write("rename_session", [session_id, name], work)

    async def delete(self, session_id: str) -> None:
        """Remove a session with all that is stored of it; nothing happens if there is none."""
        ref = session_ref(self._store, session_id)

        async def work(sessions: SessionWrites) -> Json:
            await sessions.registry.delete_session(ref)

        await self._store.write("delete_session", [session_id], work)
        self._sessions.forget(session_id)
        await self._setup.tell(session_id, MessagesCleared())

    def get_session(self, session_id: str) -> Session:
        """Return a session, registered or not; the same object as long as somebody holds it."""
        return self._sessions.get(session_id)

    def forget(self, session_id: str) -> None:
        """Drop a session's object; the next one is made anew from what is stored."""
        self._sessions.forget(session_id)

    async def add_usage(
        self,
        session_id: str,
        input_tokens: int,
        output_tokens: int,
        cost: float = 0.0,
        *,
        operation_key: str | None = None,
    ) -> None:
        """Add to a session's counters; nothing happens if it is not registered.

        Raises:
            InvalidRequestError: See `check_usage`; of the sums too.
            IdempotencyConflictError: The operation key was used for something else.
        """
        check_usage(input_tokens, output_tokens, cost)
        ref = session_ref(self._store, session_id)

        async def work(sessions: SessionWrites) -> Json:
            row = await sessions.reads.record(ref)
            check_sums(row, input_tokens, output_tokens, cost)
            await sessions.registry.update_record(
                self._store.agent,
                session_id,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                cost=cost,
            )

        arguments = [session_id, input_tokens, output_tokens, cost]
        await self._once("add_usage", arguments, operation_key, work)

    async def append(self, session_id: str, message: Message, parent_id: Parent = AUTO) -> str:
        """Append a message to a session and return its id; see `Session.append_message`."""
        await self._sessions.get(session_id).append_message(message, parent_id)
        return _id_of(message)

    async def upsert(self, session_id: str, message: Message, parent_id: Parent = AUTO) -> str:
        """Replace or append a message and return its id; see `Session.upsert_message`."""
        await self._sessions.get(session_id).upsert_message(message, parent_id)
        return _id_of(message)

    async def append_all(
        self, session_id: str, messages: Sequence[Message], parent_id: Parent = AUTO
    ) -> str | None:
        """Append messages, each below the one before it, in one transaction.

        Args:
            parent_id: Of the first one; by default the latest leaf, None for a new root.

        Returns:
            The last one's id; of no messages the parent given, if any.
        """
        await self._sessions.get(session_id).append_messages(messages, parent_id)
        if messages:
            return _id_of(messages[-1])
        return parent_id if isinstance(parent_id, str) else None

    async def clear_messages(self, session_id: str) -> None:
        """Remove a session's messages; see `Session.clear_messages`."""
        await self._sessions.get(session_id).clear_messages()

    async def delete_messages(self, session_id: str, message_ids: Sequence[str]) -> None:
        """Remove some of a session's messages; see `Session.delete_messages`."""
        await self._sessions.get(session_id).delete_messages(message_ids)

    async def get_history(
        self, session_id: str, leaf_id: str | None = None
    ) -> builtins.list[Message]:
        """Return a session's visible history; see `Session.get_history`."""
        return await self._sessions.get(session_id).get_history(leaf_id)

    async def get_message_count(self, session_id: str) -> int:
        """Return how many messages the path to the latest leaf has, under summaries too."""
        return await self._sessions.get(session_id).get_path_length()

    async def get_branches(self, session_id: str, message_id: str) -> builtins.list[Message]:
        """Return a message's direct children, oldest first."""
        return await self._sessions.get(session_id).get_branches(message_id)

    async def add_compaction(
        self, session_id: str, summary: str, from_message_id: str, to_message_id: str
    ) -> Compaction:
        """Store a summary of your own for a range; see `Session.add_compaction`."""
        session = self._sessions.get(session_id)
        return await session.add_compaction(summary, from_message_id, to_message_id)

    async def get_compactions(self, session_id: str) -> builtins.list[Compaction]:
        """Return a session's stored summaries, oldest first."""
        return await self._sessions.get(session_id).get_compactions()

    async def fork(
        self,
        session_id: str,
        at_message_id: str,
        new_name: str,
        *,
        copy_context: bool = False,
        operation_key: str | None = None,
    ) -> SessionRecord:
        """Continue a session from a message in a new one, leaving the old one as it is.

        What a reader of the path to that message sees is copied under new ids as one chain,
        summaries as messages with `metadata.compaction`. All of it is one transaction; nothing is
        compacted.

        Args:
            copy_context: Copy the blocks kept in the store, and their searchable entries, too.

        Raises:
            UnknownSessionError: There is no such session.
            UnknownMessageError: There is no such message in it.
            InvalidRequestError: The message's id or the name is no text.
            IdempotencyConflictError: The operation key was used for something else.
        """
        ref = session_ref(self._store, session_id)
        given_text(at_message_id, "at_message_id")

        async def work(sessions: SessionWrites) -> Json:
            row = await session_fork.fork(
                sessions, ref, at_message_id, new_name, has_context=copy_context
            )
            return session_record(row).to_json()

        arguments = [session_id, at_message_id, new_name, copy_context]
        return SessionRecord(**await self._once("fork_session", arguments, operation_key, work))

    async def compact_and_split(
        self,
        session_id: str,
        summary: str,
        new_name: str | None = None,
        *,
        operation_key: str | None = None,
    ) -> SessionRecord:
        """End a session with the reason `compaction` and begin a new one with its summary.

        Args:
            new_name: By default the old name.

        Raises:
            UnknownSessionError: The session is not registered.
            InvalidRequestError: The summary or the name is no text.
            IdempotencyConflictError: The operation key was used for something else.
        """
        ref = session_ref(self._store, session_id)
        given_text(summary, "summary")

        async def work(sessions: SessionWrites) -> Json:
            row = await session_fork.split(sessions, ref, summary, new_name)
            return session_record(row).to_json()

        arguments = [session_id, summary, new_name]
        return SessionRecord(**await self._once("split_session", arguments, operation_key, work))

    async def search(
        self, query: str, limit: int = 20, *, session_ids: Sequence[str] | None = None
    ) -> builtins.list[SearchHit]:
        """Return messages of registered sessions that hold every word, best first.

        Args:
            session_ids: Only in these of them.

        Raises:
            InvalidSearchError: `limit` is not 1 to 1000.
            InvalidRequestError: `session_ids` is one text, or not all of them are texts.
        """
        check_search(query, limit)
        agent = self._store.agent
        wanted = await self._store.reads.registered_ids(agent)
        if session_ids is not None:
            wanted = sorted({*wanted} & {*id_list(session_ids, "session_ids")})
        hits = await self._store.reads.search(agent, wanted, query, limit)
        return [search_hit(hit) for hit in hits]

    async def tools(self) -> dict[str, Tool]:
        """Return the tool `session_search`, by name, to be used beside a session's own tools."""
        tool = session_search_tool(self.search)
        return {tool.name: tool}

    @property
    def _store(self) -> SessionStore:
        # Asked for each time: an agent has a store while a handler of it runs only.
        store = store_of(self._source)
        assert store is not None
        return store

    def _make(self, session_id: str) -> Session:
        made = None if self._make_otherwise is None else self._make_otherwise(session_id)
        return self._setup.make(session_id) if made is None else made

    def _apply(self) -> Self:
        for session in self._sessions:
            self._setup.apply(session)
        return self

    async def _count(self) -> int:
        return len(await self._store.reads.registered_ids(self._store.agent))

    async def _once(
        self,
        kind: str,
        arguments: Sequence[Json],
        key: str | None,
        work: Callable[[SessionWrites], Awaitable[Json]],
    ) -> Json:
        agent = self._store.agent
        mark = fingerprint([kind, from_json(to_json([*arguments], what="an argument"))])

        async def unit(sessions: SessionWrites) -> Json:
            if key is None:
                return await work(sessions)
            recorded = await sessions.registry.recall_operation(agent, key, mark)
            if recorded is not None:
                return from_json(recorded)
            result = await work(sessions)
            await sessions.registry.record_operation(agent, key, to_json(result).decode())
            return result

        return await self._store.write(kind, [*arguments, key], unit)


def _id_of(message: Message) -> str:
    message_id: str = message["id"]
    return message_id
