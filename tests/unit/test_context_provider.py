"""The shapes of providers, told apart by what they can do."""

from __future__ import annotations

import pytest

from agent_runtime.errors import SessionSetupError
from agent_runtime.session.context_block import ContextConfig
from agent_runtime.session.context_provider import (
    is_search_provider,
    is_skill_provider,
    is_static_provider,
    is_writable_provider,
)
from agent_runtime.session.maybe_await import maybe_await
from agent_runtime.session.static_context import StaticContextProvider
from agent_runtime.testing.context_providers import (
    InMemoryContextProvider,
    InMemorySearchProvider,
    InMemorySkillProvider,
)
from tests.support.context import ReadOnly


@pytest.mark.parametrize(
    ("provider", "kinds"),
    [
        (ReadOnly("x"), (False, False, False, False)),
        (StaticContextProvider("x"), (False, False, False, True)),
        (InMemoryContextProvider(), (True, False, False, False)),
        (InMemorySkillProvider(), (True, True, False, False)),
        (InMemorySearchProvider(), (True, False, True, False)),
        (None, (False, False, False, False)),
    ],
)
def test_what_a_provider_is(provider: object, kinds: tuple[bool, ...]) -> None:
    """Writable, skill, search and static, in this order."""
    assert (
        is_writable_provider(provider),
        is_skill_provider(provider),
        is_search_provider(provider),
        is_static_provider(provider),
    ) == kinds


def test_an_attribute_is_no_method() -> None:
    """A provider with a field `set` is not writable."""

    class Odd(ReadOnly):
        set = "of things"

    assert not is_writable_provider(Odd("x"))


async def test_answers_may_be_awaited_or_not() -> None:
    """Both are answers."""

    async def later() -> int:
        return 2

    assert (await maybe_await(1), await maybe_await(later())) == (1, 2)


def test_a_block_needs_a_label() -> None:
    """And a limit that is none below 0."""
    with pytest.raises(SessionSetupError, match="label"):
        ContextConfig("")
    with pytest.raises(SessionSetupError, match="max_tokens"):
        ContextConfig("memory", max_tokens=-1)
