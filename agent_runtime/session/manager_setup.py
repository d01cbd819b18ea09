"""How a manager's sessions are set up: every one in the same way, each with its own providers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from typing_extensions import TypeIs

from agent_runtime.compaction.compact_context import CompactFunction, SessionTokenCounter
from agent_runtime.errors import SessionSetupError
from agent_runtime.session.compaction_jobs import CompactionMode
from agent_runtime.session.context_provider import ContextProvider, PromptStore
from agent_runtime.session.history_search import HISTORY_DESCRIPTION
from agent_runtime.session.registered_session import RegisteredSession
from agent_runtime.session.session import Session
from agent_runtime.session.session_events import SessionEvent, SessionEvents, SessionListener
from agent_runtime.session.session_setup import SessionOwner
from agent_runtime.session.session_status import CompactionErrorHandler
from agent_runtime.session.session_store import SessionStore
from agent_runtime.session.stored_context import StoredSearchProvider

ProviderFactory: TypeAlias = Callable[[str], ContextProvider]
"""Given a session id, returns a provider for that session."""

PromptStoreFactory: TypeAlias = Callable[[str], PromptStore]

ManagerListener: TypeAlias = Callable[[str, SessionEvent], Awaitable[None] | None]
"""Given the session's id and what happened; what it raises is logged."""


@dataclass(frozen=True, slots=True)
class _Context:
    label: str
    description: str | None
    max_tokens: int | None
    provider: ContextProvider | ProviderFactory | None


class ManagerSetup:
    """Collects what a manager's sessions have in common, and makes them.

    What is asked for is first asked of a session that is never used, so that it is refused at once
    if a session would refuse it.
    """

    def __init__(self, source: SessionOwner | SessionStore) -> None:
        self.has_cached_prompt = False
        self.prompt_store: PromptStoreFactory | None = None
        self.history_label: str | None = None
        self.history_provider: ContextProvider | None = None
        self.listener: ManagerListener | None = None
        self._source = source
        self._example = Session.create(source)
        self._contexts: list[_Context] = []
        self._function: CompactFunction | None = None
        self._threshold: int | None = None
        self._token_counter: SessionTokenCounter | None = None
        self._mode: CompactionMode | None = None
        self._error_handler: CompactionErrorHandler | None = None
        self._is_used = False

    def with_context(
        self,
        label: str,
        description: str | None,
        max_tokens: int | None,
        provider: ContextProvider | ProviderFactory | None,
    ) -> None:
        """Give every session a block."""
        self.check_unused("with_context")
        self._example.with_context(label, description=description, max_tokens=max_tokens)
        self._contexts.append(_Context(label, description, max_tokens, provider))

    def with_cached_prompt(self, store: PromptStoreFactory | None) -> None:
        """Keep every session's frozen prompt."""
        self.check_unused("with_cached_prompt")
        if store is not None and not _is_function(store):
            raise SessionSetupError(
                "one prompt store cannot serve several sessions: each would get the others' "
                "prompt; give a function (session_id) -> store, or nothing"
            )
        self.has_cached_prompt = True
        self.prompt_store = store

    def with_searchable_history(self, label: str, provider: ContextProvider) -> None:
        """Give every session a block that searches them all, after its other blocks."""
        self.check_unused("with_searchable_history")
        if self.history_label is not None:
            raise SessionSetupError(f'the searchable history is "{self.history_label}" already')
        self._example.with_context(label)
        self.history_label = label
        self.history_provider = provider

    def on_compaction(self, function: CompactFunction) -> None:
        """Summarize every session with this."""
        self._example.on_compaction(function)
        self._function = function

    def compact_after(
        self,
        threshold: int,
        token_counter: SessionTokenCounter | None,
        mode: CompactionMode | None,
    ) -> None:
        """Compact every session above this."""
        self._example.compact_after(threshold, token_counter=token_counter)
        self._threshold = threshold
        self._mode = mode or self._mode
        self._token_counter = token_counter or self._token_counter

    def on_compaction_error(self, handler: CompactionErrorHandler) -> None:
        """Tell this of every session's automatic compactions that fail."""
        self._error_handler = handler

    def make(self, session_id: str) -> Session:
        """Make a session's object; the blocks and the prompt cannot change afterwards."""
        self._is_used = True
        session = Session.create(RegisteredSession(self._source, session_id))
        session.for_session(session_id)
        for each in self._contexts:
            session.with_context(
                each.label,
                description=each.description,
                max_tokens=each.max_tokens,
                provider=_provider_of(each.provider, session_id),
            )
        if self.history_label is not None:
            session.with_context(
                self.history_label, description=HISTORY_DESCRIPTION, provider=self.history_provider
            )
        if self.has_cached_prompt:
            session.with_cached_prompt(self.prompt_store(session_id) if self.prompt_store else None)
        self.apply(session)
        return session

    def apply(self, session: Session) -> None:
        """Give a session what may be set at any time."""
        if self._function is not None:
            session.on_compaction(self._function)
        if self._threshold is not None:
            session.compact_after(
                self._threshold, token_counter=self._token_counter, mode=self._mode
            )
        if self._error_handler is not None:
            session.on_compaction_error(self._error_handler)
        if self.listener is not None:
            session.on_change(_listener_of(self.listener, session.session_id))

    async def tell(self, session_id: str, event: SessionEvent) -> None:
        """Tell the observer what happened to a session without its object."""
        if self.listener is not None:
            events = SessionEvents()
            events.listener = _listener_of(self.listener, session_id)
            await events.emit(event)

    def check_unused(self, method: str) -> None:
        """Refuse a change of what the sessions are made of once there is one."""
        if self._is_used:
            raise SessionSetupError(f"{method} came after the manager's first session")


def _provider_of(
    given: ContextProvider | ProviderFactory | None, session_id: str
) -> ContextProvider | None:
    if given is None:
        return None
    if _is_factory(given):
        return given(session_id)
    if isinstance(given, StoredSearchProvider):
        return given.for_session(session_id)
    return given


def _is_factory(given: ContextProvider | ProviderFactory) -> TypeIs[ProviderFactory]:
    return _is_function(given)


def _is_function(given: object) -> bool:
    # A class is one, although it has the methods of its objects.
    return callable(given) and (isinstance(given, type) or not hasattr(given, "get"))


def _listener_of(listener: ManagerListener, session_id: str) -> SessionListener:
    return lambda event: listener(session_id, event)
