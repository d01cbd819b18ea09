"""How a session is made: over what, and the chain of methods that sets it up (contract 18)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from agent_runtime.compaction.compact_context import CompactFunction, SessionTokenCounter
from agent_runtime.session.compaction_jobs import CompactionMode
from agent_runtime.session.context_block import ContextConfig
from agent_runtime.session.context_provider import ContextProvider, PromptStore
from agent_runtime.session.message import Message
from agent_runtime.session.session_compactor import SessionCompactor
from agent_runtime.session.session_events import (
    MessageUpdated,
    SessionEvents,
    SessionListener,
)
from agent_runtime.session.session_provider import SessionProvider
from agent_runtime.session.session_setup import SessionParts, SessionSetup, SessionSource
from agent_runtime.session.session_status import CompactionErrorHandler


class SessionBuilder:
    """The set-up of a `Session`; what it builds is made at the first use."""

    def __init__(
        self,
        provider: SessionProvider,
        *,
        context: Sequence[ContextConfig] = (),
        prompt_store: PromptStore | None = None,
        token_counter: SessionTokenCounter | None = None,
        on_compaction_error: CompactionErrorHandler | None = None,
    ) -> None:
        self._begin(provider)
        for config in context:
            self._setup.with_context(config)
        if prompt_store is not None:
            self._setup.with_cached_prompt(prompt_store)
        self._compactor.token_counter = token_counter
        self._compactor.error_handler = on_compaction_error

    @classmethod
    def create(cls, source: SessionSource) -> Self:
        """Begin a session over an agent, a session store, or a message store of your own.

        Over an agent or store, blocks and prompt without a provider are kept there, and an agent's
        clients are told of the session's status. Over your own message store, blocks need
        providers.

        Raises:
            SessionSetupError: At the first use, if `source` is none of these.
        """
        session = cls.__new__(cls)
        session._begin(source)
        session._events.broadcast = session._setup.broadcast()
        session._compactor.jobs = session._setup.compaction_jobs()
        return session

    def _begin(self, source: SessionSource) -> None:
        self._setup = SessionSetup(source)
        self._events = SessionEvents()
        self._compactor = SessionCompactor(self._use, self._events)
        self._built: SessionParts | None = None
        self._has_warned_of_budget = False

    @property
    def parts(self) -> SessionParts:
        """What the session works with, made at its first use; for the steps of durable jobs."""
        return self._use()

    @property
    def compactor(self) -> SessionCompactor:
        """What compacts the session; for the steps of durable jobs."""
        return self._compactor

    @property
    def session_id(self) -> str:
        """The session's id, `""` for the default session."""
        return self._setup.session_id

    def for_session(self, session_id: str) -> Self:
        """Choose which of the owner's sessions this is; without effect on your own store.

        Raises:
            SessionSetupError: The session is in use already.
        """
        self._setup.for_session(session_id)
        return self

    def with_context(
        self,
        label: str,
        *,
        description: str | None = None,
        max_tokens: int | None = None,
        provider: ContextProvider | None = None,
    ) -> Self:
        """Add a context block: a named text in the prompt, for the model to read or to write.

        Raises:
            SessionSetupError: The session is in use already, or has a block of that label.
        """
        self._setup.with_context(ContextConfig(label, description, max_tokens, provider))
        return self

    def with_cached_prompt(self, provider: PromptStore | None = None) -> Self:
        """Keep the frozen prompt in the store, or with a provider, beyond this object.

        Raises:
            SessionSetupError: The session is in use already.
        """
        self._setup.with_cached_prompt(provider)
        return self

    def on_compaction(self, function: CompactFunction) -> Self:
        """Register what summarizes a part of the history; at any time.

        Raises:
            SessionSetupError: It keeps more than the threshold of `compact_after`.
        """
        self._compactor.set_function(function)
        return self

    def compact_after(
        self,
        threshold: int,
        *,
        token_counter: SessionTokenCounter | None = None,
        mode: CompactionMode | None = None,
    ) -> Self:
        """Compact by itself once the session is estimated above a number of tokens; at any time.

        Args:
            token_counter: Replaces the default estimate; without one an earlier one stays.
            mode: "background", an agent's default: an append is answered first, and a durable job
                compacts; "inline", all others' only one: the append waits.

        Raises:
            SessionSetupError: The compaction function keeps more than that.
        """
        self._compactor.set_threshold(threshold, token_counter)
        self._compactor.mode = mode or self._compactor.mode
        return self

    def on_compaction_error(self, handler: CompactionErrorHandler) -> Self:
        """Register who is told of automatic compactions that fail; at any time."""
        self._compactor.error_handler = handler
        return self

    def on_change(self, listener: SessionListener) -> Self:
        """Register one observer of changes, called after each is stored; at any time."""
        self._events.listener = listener
        return self

    def _use(self) -> SessionParts:
        if self._built is None:
            self._built = self._setup.build(self._show_rewritten)
        return self._built

    async def _ready(self) -> SessionParts:
        parts = self._use()
        await parts.skills.restore()
        return parts

    async def _show_rewritten(self, message: Message) -> None:
        await self._compactor.show_status()
        await self._events.emit(MessageUpdated(message))
