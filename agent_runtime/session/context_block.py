"""One context block: how it is set up, what it holds and how its provider is read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent_runtime.compaction.token_estimate import estimate_string_tokens
from agent_runtime.errors import ContextBlockError, SessionSetupError
from agent_runtime.session.context_provider import (
    ContextProvider,
    is_initialized_provider,
    is_search_provider,
    is_skill_provider,
    is_writable_provider,
)
from agent_runtime.session.given_text import MAX_LABEL_BYTES, byte_length
from agent_runtime.session.maybe_await import maybe_await


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """A block as it is set up (contract 18.1).

    Args:
        label: Its name, unique in a session; the prompt shows it in upper case.
        description: What it is for, shown to the model.
        max_tokens: A write that is estimated to be longer is refused; None for no limit. What the
            provider already holds may be longer.
        provider: Where its content is; without one it stays empty and cannot be written.

    Raises:
        SessionSetupError: The label is empty or has more than 500 bytes of UTF-8, or `max_tokens`
            is negative.
    """

    label: str
    description: str | None = None
    max_tokens: int | None = None
    provider: ContextProvider | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.label, str) or not self.label:
            raise SessionSetupError("a context block needs a label: a text that is not empty")
        if (size := byte_length(self.label)) > MAX_LABEL_BYTES:
            raise SessionSetupError(
                f"a context block's label has at most {MAX_LABEL_BYTES} bytes of UTF-8, not {size}"
            )
        if self.max_tokens is not None and self.max_tokens < 0:
            raise SessionSetupError(
                f'max_tokens of block "{self.label}" is {self.max_tokens}; give 0 or more, or None'
            )

    @property
    def is_writable(self) -> bool:
        """Whether the provider takes content."""
        return is_writable_provider(self.provider)

    @property
    def is_skill(self) -> bool:
        """Whether the provider is a collection of documents to load."""
        return is_skill_provider(self.provider)

    @property
    def is_searchable(self) -> bool:
        """Whether the provider can be searched."""
        return is_search_provider(self.provider)


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """What a block holds (contract 11.2).

    Args:
        content: Its text, `""` for none.
        tokens: The content's estimated length.
        is_available: False if the provider failed when last read; the content is then the last one
            known.
    """

    label: str
    description: str | None
    content: str
    tokens: int
    max_tokens: int | None
    is_writable: bool
    is_skill: bool
    is_searchable: bool
    is_available: bool = True

    @property
    def is_keyed(self) -> bool:
        """Whether it holds entries under keys rather than one text."""
        return self.is_skill or self.is_searchable

    def with_content(self, content: str | None) -> ContextBlock:
        """Return the block with what its provider was found to hold."""
        text = content or ""
        return replace(self, content=text, tokens=estimate_string_tokens(text), is_available=True)


def empty_block(config: ContextConfig) -> ContextBlock:
    """Return a block that was not read yet."""
    return ContextBlock(
        label=config.label,
        description=config.description,
        content="",
        tokens=0,
        max_tokens=config.max_tokens,
        is_writable=config.is_writable,
        is_skill=config.is_skill,
        is_searchable=config.is_searchable,
    )


async def load_content(config: ContextConfig) -> str | None:
    """Tell a block's provider its label and return the content.

    Raises:
        ContextBlockError: The provider answered something that is no text.
    """
    if config.provider is None:
        return None
    if is_initialized_provider(config.provider):
        await maybe_await(config.provider.init(config.label))
    return await get_content(config.label, config.provider)


async def get_content(label: str, provider: ContextProvider) -> str | None:
    """Return what a provider holds.

    Raises:
        ContextBlockError: The provider answered something that is no text.
    """
    return checked_text(label, await maybe_await(provider.get()))


def checked_text(label: str, answer: object) -> str | None:
    """Return a provider's answer if it is a text or None.

    Raises:
        ContextBlockError: It is neither.
    """
    if answer is None or isinstance(answer, str):
        return answer
    raise ContextBlockError(
        f'the provider of block "{label}" answered {type(answer).__name__}; it must be text or None'
    )
