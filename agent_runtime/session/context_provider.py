"""What the content of a context block may come from: four shapes, told apart by what they can do.

Every method may be sync or async (contract 11.1). Three things are optional on each shape: a method
`init(label)`, called before each reading of the block; an attribute `is_static`; and, on writable
ones, `compare_and_set`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeGuard

from typing_extensions import TypeIs

Text: TypeAlias = str | Awaitable[str | None] | None
"""A text or None for "nothing", now or awaited."""

Done: TypeAlias = Awaitable[None] | None


class ContextProvider(Protocol):
    """The least: a text for the prompt, which the model cannot change."""

    def get(self) -> Text:
        """Return the content, None for none."""


class WritableContextProvider(ContextProvider, Protocol):
    """A text that the model may replace and append to through `set_context`."""

    def set(self, content: str, /) -> Done:
        """Replace the content."""


class SkillProvider(ContextProvider, Protocol):
    """A collection of documents: `get` lists them, `load_context` brings one into the conversation.

    A writable one has `set(key, content, description)` too, description None if there is none.
    """

    def load(self, key: str, /) -> Text:
        """Return one document, None if there is none of that key."""


class SearchContextProvider(ContextProvider, Protocol):
    """Entries found by `search_context`; `get` sums them up. Writable with `set(key, content)`."""

    def search(self, query: str, /) -> Text:
        """Return what was found as text, None for nothing."""


class KeyedSkillWriter(Protocol):
    """A skill collection that takes new documents."""

    def set(self, key: str, content: str, description: str | None, /) -> Done:
        """Store one document under a key, replacing what was there."""


class KeyedSearchWriter(Protocol):
    """A searchable collection that takes new entries."""

    def set(self, key: str, content: str, /) -> Done:
        """Store one entry under a key, replacing what was there."""


class InitializedProvider(ContextProvider, Protocol):
    """A provider that wants to know its block's label."""

    def init(self, label: str, /) -> Done:
        """Take the label; called before each `get` of a load, so a second call must be harmless."""


class ComparingProvider(WritableContextProvider, Protocol):
    """A writable provider whose content several sessions may append to at once, losing nothing."""

    def compare_and_set(self, expected: str | None, content: str, /) -> bool | Awaitable[bool]:
        """Replace the content only if it is still what `get` returned, all in one step.

        Returns:
            False if somebody else changed it; nothing was stored then.
        """


@dataclass(frozen=True, slots=True)
class StoredPrompt:
    """A frozen system prompt and what it was made for.

    Args:
        fingerprint: Of the blocks' configuration; None if unknown, which fits any.
    """

    prompt: str
    fingerprint: str | None = None


class FingerprintedPromptStore(Protocol):
    """A prompt store that notices a new release of the agent's instructions (contract 13.5)."""

    def get_prompt(self) -> StoredPrompt | Awaitable[StoredPrompt | None] | None:
        """Return the stored prompt, None if there is none; an empty one is one."""

    def set_prompt(self, prompt: StoredPrompt, /) -> Done:
        """Replace the stored prompt."""


PromptStore: TypeAlias = WritableContextProvider | FingerprintedPromptStore
"""Any writable provider keeps exactly the prompt's text; a richer one keeps its fingerprint too."""


def is_writable_provider(provider: object) -> TypeGuard[WritableContextProvider]:
    """Tell whether a provider takes content, whole or by key."""
    return _has(provider, "set")


def is_skill_provider(provider: object) -> TypeGuard[SkillProvider]:
    """Tell whether a provider is a collection of documents to load."""
    return _has(provider, "load")


def is_search_provider(provider: object) -> TypeGuard[SearchContextProvider]:
    """Tell whether a provider can be searched."""
    return _has(provider, "search")


def is_initialized_provider(provider: object) -> TypeGuard[InitializedProvider]:
    """Tell whether a provider wants its block's label."""
    return _has(provider, "init")


def is_comparing_provider(provider: object) -> TypeGuard[ComparingProvider]:
    """Tell whether a provider replaces content only if it is still the expected one."""
    return _has(provider, "compare_and_set")


def is_static_provider(provider: object) -> bool:
    """Tell whether a provider declares that only a new release changes its content."""
    return getattr(provider, "is_static", False) is True


def is_fingerprinted_store(store: PromptStore) -> TypeIs[FingerprintedPromptStore]:
    """Tell whether a prompt store keeps the fingerprint beside the prompt."""
    return _has(store, "get_prompt") and _has(store, "set_prompt")


def _has(provider: object, method: str) -> bool:
    return callable(getattr(provider, method, None))
