"""How a session is set up, and the parts that it is made of at its first use (contract 18)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, TypeGuard, TypeVar

from agent_runtime.errors import SessionSetupError
from agent_runtime.json_value import Json
from agent_runtime.session.compaction_jobs import CompactionJobs
from agent_runtime.session.context_block import ContextConfig
from agent_runtime.session.context_blocks import ContextBlocks
from agent_runtime.session.context_provider import ContextProvider, PromptStore
from agent_runtime.session.maybe_await import maybe_await
from agent_runtime.session.message import Message
from agent_runtime.session.run_once import RunOnce, run_now
from agent_runtime.session.session_events import Broadcast
from agent_runtime.session.session_provider import SessionProvider
from agent_runtime.session.session_store import SessionStore
from agent_runtime.session.skills import LoadedSkills
from agent_runtime.session.stored_context import (
    SessionBound,
    StoredContextProvider,
    StoredPromptStore,
)
from agent_runtime.session.stored_session import StoredSessionProvider
from agent_runtime.session.system_prompt import SystemPrompt

T = TypeVar("T")


class SessionOwner(Protocol):
    """Whoever has a store for conversations, such as an agent.

    One that also has a method `broadcast(text)` is told of its sessions' status, and one with an
    attribute `session_compaction_jobs` compacts them outside of the code that appends.
    """

    @property
    def session_store(self) -> SessionStore:
        """Where the owner's sessions are."""


SessionSource: TypeAlias = SessionOwner | SessionStore | SessionProvider
"""What a session is made over: an owner or store, or a message store of one's own."""


@dataclass(slots=True)
class SessionParts:
    """What a session works with once it is in use."""

    provider: SessionProvider
    blocks: ContextBlocks
    prompt: SystemPrompt
    skills: LoadedSkills
    own_provider: Callable[[str, ContextProvider | None], ContextProvider] | None
    once: RunOnce


class SessionSetup:
    """Collects a session's set-up, in any order, until its first use."""

    def __init__(self, source: SessionSource) -> None:
        self.session_id = ""
        self._source = source
        self._contexts: list[ContextConfig] = []
        self._has_cached_prompt = False
        self._prompt_store: PromptStore | None = None
        self._is_used = False

    def for_session(self, session_id: str) -> None:
        """Choose the session's id; without effect on a message store of one's own."""
        self._check_unused("for_session")
        self.session_id = session_id

    def with_context(self, config: ContextConfig) -> None:
        """Add a context block."""
        self._check_unused("with_context")
        if any(each.label == config.label for each in self._contexts):
            raise SessionSetupError(
                f'two context blocks are called "{config.label}"; choose another label'
            )
        self._contexts.append(config)

    def with_cached_prompt(self, store: PromptStore | None) -> None:
        """Keep the frozen prompt beyond this object."""
        self._check_unused("with_cached_prompt")
        self._has_cached_prompt = True
        self._prompt_store = store

    def broadcast(self) -> Broadcast | None:
        """Return how the owner reaches its clients, if it can."""
        if not is_owner(self._source):
            return None
        send = getattr(self._source, "broadcast_session_frame", None)
        return send or getattr(self._source, "broadcast", None)

    def compaction_jobs(self) -> CompactionJobs | None:
        """Return how the owner carries compactions out as jobs, if it does."""
        jobs: CompactionJobs | None = getattr(self._source, "session_compaction_jobs", None)
        return jobs if is_owner(self._source) else None

    def build(self, on_rewritten: Callable[[Message], Awaitable[None]]) -> SessionParts:
        """Make the parts; the set-up cannot change afterwards.

        Args:
            on_rewritten: Told of each message that unloading a skill has changed.

        Raises:
            SessionSetupError: The session was made over something that is neither an owner nor a
                message store.
        """
        store = store_of(self._source)
        if store is not None:
            parts = self._stored_parts(store, on_rewritten)
        elif is_session_provider(self._source):
            parts = self._custom_parts(self._source, on_rewritten)
        else:
            raise SessionSetupError(
                f"a session cannot be made over {type(self._source).__name__}; give an agent, a "
                "session store, or an object with the methods of SessionProvider"
            )
        self._is_used = True
        return parts

    def _stored_parts(
        self, store: SessionStore, on_rewritten: Callable[[Message], Awaitable[None]]
    ) -> SessionParts:
        session_id = self.session_id

        def own_provider(label: str, given: ContextProvider | None) -> ContextProvider:
            if given is None:
                return StoredContextProvider(store, label, session_id=session_id)
            return _bound(given, session_id)

        contexts = [
            replace(each, provider=own_provider(each.label, each.provider))
            for each in self._contexts
        ]
        prompt_store = self._prompt_store
        if self._has_cached_prompt and prompt_store is None:
            prompt_store = StoredPromptStore(store)
        if prompt_store is not None:
            prompt_store = _bound(prompt_store, session_id)
        provider = StoredSessionProvider(store, session_id)

        async def once(
            kind: str,
            payload: Json,
            run: Callable[[], Awaitable[T]],
            recall: Callable[[Json], Awaitable[T]],
        ) -> T:
            return await store.once(kind, [session_id, payload], run, recall)

        async def rewrite(message: Message) -> None:
            await provider.update_message(message)
            await on_rewritten(message)

        blocks = ContextBlocks(contexts, once)
        return SessionParts(
            provider,
            blocks,
            SystemPrompt(blocks, prompt_store),
            LoadedSkills(provider, blocks, rewrite, once),
            own_provider,
            once,
        )

    def _custom_parts(
        self, provider: SessionProvider, on_rewritten: Callable[[Message], Awaitable[None]]
    ) -> SessionParts:
        async def rewrite(message: Message) -> None:
            await maybe_await(provider.update_message(message))
            await on_rewritten(message)

        blocks = ContextBlocks(self._contexts)
        return SessionParts(
            provider,
            blocks,
            SystemPrompt(blocks, self._prompt_store),
            LoadedSkills(provider, blocks, rewrite),
            None,
            run_now,
        )

    def _check_unused(self, method: str) -> None:
        if self._is_used:
            raise SessionSetupError(
                f"{method} came after the session's first use; set it up before"
            )


def store_of(source: object) -> SessionStore | None:
    """Return the store behind an owner, the store itself, or None."""
    if is_owner(source):
        return source.session_store
    return source if _is_store(source) else None


def is_owner(source: object) -> TypeGuard[SessionOwner]:
    """Tell whether an object has a store for conversations."""
    # The class is asked: an agent's own store exists while a handler of it runs only.
    return hasattr(type(source), "session_store") or "session_store" in vars_of(source)


def is_session_provider(source: object) -> TypeGuard[SessionProvider]:
    """Tell whether an object is a message store."""
    methods = ("append_message", "get_history", "get_latest_leaf")
    return all(callable(getattr(source, method, None)) for method in methods)


def vars_of(source: object) -> dict[str, object]:
    """Return an object's own attributes, none if it has no place for them."""
    found: dict[str, object] = getattr(source, "__dict__", {})
    return found


def _is_store(source: object) -> TypeGuard[SessionStore]:
    return hasattr(source, "reads") and callable(getattr(source, "write", None))


def _bound(provider: T, session_id: str) -> T:
    if isinstance(provider, SessionBound) and not provider.has_session:
        return provider.for_session(session_id)
    return provider
