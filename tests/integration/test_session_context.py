"""A session's context blocks and their tools, in its own storage and in providers of yours."""

from __future__ import annotations

import asyncio
import re

import pytest

from agent_runtime.errors import ContextBlockError
from agent_runtime.session.context_block import ContextConfig
from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.session import Session
from agent_runtime.session.stored_context import (
    StoredContextProvider,
    StoredPromptStore,
    StoredSearchProvider,
)
from agent_runtime.testing.context_providers import (
    InMemoryContextProvider,
    InMemorySearchProvider,
    InMemorySkillProvider,
)
from tests.support.context import Failing, ReadOnly
from tests.support.session import set_context, use
from tests.support.session_providers import PlainMessages


class SyncMemory:
    """A writable text whose methods are sync."""

    def __init__(self, content: str | None = None) -> None:
        self.content = content

    def get(self) -> str | None:
        """Return it."""
        return self.content

    def set(self, content: str) -> None:
        """Replace it."""
        self.content = content


def over(*blocks: ContextConfig) -> Session:
    """Return a session of the direct constructor over a store in memory."""
    return Session(PlainMessages(), context=blocks)


async def test_s008_the_tool_names_the_writable_blocks() -> None:
    """Without anybody having loaded them, and not those that cannot be written."""
    session = over(
        ContextConfig("soul", provider=ReadOnly("x")),
        ContextConfig("memory", "Learned facts", 1100, SyncMemory("")),
        ContextConfig("todos", "Task list", 2000, InMemoryContextProvider("")),
    )

    description = (await session.tools())["set_context"].description

    assert "memory" in description and "todos" in description
    assert "soul" not in description


async def test_s009_the_tool_tells_the_kinds_of_blocks() -> None:
    """A line each, in these words."""
    session = over(
        ContextConfig("memory", "Learned facts", provider=InMemoryContextProvider()),
        ContextConfig("skills", "Loadable docs", provider=InMemorySkillProvider()),
        ContextConfig("knowledge", "Searchable docs", provider=InMemorySearchProvider()),
    )

    description = (await session.tools())["set_context"].description

    assert {
        '- "memory" (writable): Learned facts',
        '- "skills" (skill collection, keyed entries): Loadable docs',
        '- "knowledge" (searchable, keyed entries): Searchable docs',
    } <= set(description.splitlines())
    assert "metadata: { title, description }" in description


@pytest.mark.parametrize("provider", [SyncMemory(""), InMemoryContextProvider("")])
async def test_s010_the_tool_writes(provider: SyncMemory | InMemoryContextProvider) -> None:
    """The provider, sync or async, holds what the model wrote."""
    session = over(ContextConfig("memory", "Facts", 1100, provider))

    result = await set_context(session, "memory", "user likes coffee")

    assert "Written to memory" in result and "tokens" in result
    assert provider.content == "user likes coffee"


@pytest.mark.parametrize("provider", [SyncMemory("fact1"), InMemoryContextProvider("fact1")])
async def test_s011_the_tool_appends(provider: SyncMemory | InMemoryContextProvider) -> None:
    """A line break that is brought along is not doubled."""
    session = over(ContextConfig("memory", "Facts", 1100, provider))

    result = await set_context(session, "memory", "\nfact2", action="append")

    assert "Written to memory" in result
    assert provider.content == "fact1\nfact2"


async def test_s012_the_tool_answers_what_is_not_allowed() -> None:
    """A read-only block is an answer to the model, no exception."""
    session = over(
        ContextConfig("soul", provider=ReadOnly("x")),
        ContextConfig("memory", provider=InMemoryContextProvider()),
    )

    assert await set_context(session, "soul", "hacked") == 'Error: Block "soul" is readonly'


async def test_s013_read_only_blocks_call_for_no_tools() -> None:
    """There is nothing to offer."""
    assert await over(ContextConfig("soul", provider=ReadOnly("x"))).tools() == {}


async def test_s069_blocks_are_read_back_as_written(session_store: DirectSessionStore) -> None:
    """Replaced, then appended to; the prompt was frozen before."""
    session = (
        Session.create(session_store)
        .with_context("soul", provider=ReadOnly("You are helpful."))
        .with_context("memory", description="Facts", max_tokens=1100)
        .with_cached_prompt()
    )
    await session.freeze_system_prompt()

    assert (await session.replace_context_block("memory", "fact1")).content == "fact1"
    assert (await session.append_context_block("memory", "\nfact2")).content == "fact1\nfact2"

    memory = await session.get_context_block("memory")
    assert memory is not None and "fact1" in memory.content
    assert len(await session.get_context_blocks()) == 2


async def test_s070_s194_to_s197_the_default_provider(session_store: DirectSessionStore) -> None:
    """Nothing, then what was set last; labels are apart."""
    provider = StoredContextProvider(session_store, "test_block")
    other = StoredContextProvider(session_store, "todos")

    assert await provider.get() is None
    await provider.set("hello world")
    assert await provider.get() == "hello world"
    await provider.set("updated")
    await other.set("mine")
    assert (await provider.get(), await other.get()) == ("updated", "mine")


async def test_a_shared_default_provider_loses_no_append(
    session_store: DirectSessionStore,
) -> None:
    """What was read before another session's write is not written over it (F21)."""
    provider = StoredContextProvider(session_store, "memory")
    await provider.set("a")
    read = await provider.get()
    await provider.set("b")
    await provider.get()

    assert await provider.compare_and_set(read, "a\nmine") is False
    assert await provider.get() == "b"


def searchable(store: DirectSessionStore, label: str = "knowledge") -> Session:
    """Return a session with a searchable block."""
    provider = StoredSearchProvider(store)
    return Session.create(store).with_context(label, description="Docs", provider=provider)


async def test_s071_s199_entries_are_found_by_their_words(
    session_store: DirectSessionStore,
) -> None:
    """By one, by several that are not neighbours, in any order; each entry by its own."""
    session = searchable(session_store)
    notes = "The deployment is scheduled for Friday with budget concerns"
    await set_context(session, "knowledge", notes, metadata={"title": "meeting-notes"})
    await set_context(
        session,
        "knowledge",
        "The API uses REST endpoints with JSON responses",
        metadata={"title": "design-doc"},
    )

    assert {"set_context", "search_context"} <= set(await session.tools())
    for query in ("deployment", "deployment budget", "Friday deployment"):
        found = await use(session, "search_context", label="knowledge", query=query)
        assert found == f"[meeting-notes]\n{notes}"
    found = await use(session, "search_context", label="knowledge", query="REST")
    assert "[design-doc]" in found and "meeting-notes" not in found
    none = await use(session, "search_context", label="knowledge", query="nonexistent")
    assert "No results" in none


async def test_s072_s211_a_searchable_block_shows_as_such(
    session_store: DirectSessionStore,
) -> None:
    """Also while it is empty, with both of its tools."""
    session = searchable(session_store)

    prompt = await session.freeze_system_prompt()

    assert "KNOWLEDGE" in prompt and "[searchable]" in prompt
    assert set(await session.tools()) == {"set_context", "search_context"}


async def test_s073_s201_an_entry_is_replaced(session_store: DirectSessionStore) -> None:
    """It is found by its new words alone, and counts once."""
    session = searchable(session_store)
    for text in ("original content about cats", "replaced content about dogs"):
        await set_context(session, "knowledge", text, metadata={"title": "doc"})

    dogs = await use(session, "search_context", label="knowledge", query="dogs")
    cats = await use(session, "search_context", label="knowledge", query="cats")

    assert "replaced" in dogs
    assert cats == "No results found."
    block = await session.get_context_block("knowledge")
    assert block is not None and block.content == "1 entries indexed."


async def test_s198_s200_an_empty_search_provider(session_store: DirectSessionStore) -> None:
    """It says nothing, finds nothing, and counts once there is something."""
    session = searchable(session_store)
    block = await session.get_context_block("knowledge")
    assert block is not None and block.content == ""
    assert await use(session, "search_context", label="knowledge", query="x") == "No results found."

    await set_context(session, "knowledge", "text", metadata={"title": "doc"})

    block = await session.get_context_block("knowledge")
    assert block is not None and block.content == "1 entries indexed."


async def test_s202_labels_are_apart(session_store: DirectSessionStore) -> None:
    """Two searchable blocks of one session hold an entry each."""
    session = searchable(session_store).with_context(
        "other", provider=StoredSearchProvider(session_store)
    )
    await set_context(session, "knowledge", "alpha", metadata={"title": "one"})
    await set_context(session, "other", "beta", metadata={"title": "one"})

    contents = [block.content for block in await session.get_context_blocks()]

    assert contents == ["1 entries indexed.", "1 entries indexed."]
    found = await use(session, "search_context", label="other", query="alpha")
    assert found == "No results found."


@pytest.mark.parametrize("is_added", [False, True])
async def test_entries_are_those_of_the_session_that_has_the_block(
    session_store: DirectSessionStore, is_added: bool
) -> None:
    """A set-up that serves several sessions needs no session's id to keep their entries apart."""

    async def open_session(session_id: str) -> Session:
        session = Session.create(session_store).for_session(session_id)
        provider = StoredSearchProvider(session_store)
        if not is_added:
            return session.with_context("notes", provider=provider)
        await session.add_context("notes", provider=provider)
        return session

    mine, other, default = [await open_session(each) for each in ("mine", "other", "")]
    await set_context(mine, "notes", "alpha", metadata={"title": "one"})

    found = [
        await use(each, "search_context", label="notes", query="alpha")
        for each in (mine, other, default)
    ]
    assert found == ["[one]\nalpha", "No results found.", "No results found."]


async def test_a_given_block_and_prompt_are_those_of_the_session_that_has_them(
    session_store: DirectSessionStore,
) -> None:
    """One set-up serves several sessions; a chosen session's block is shared on purpose."""

    def open_session(session_id: str) -> Session:
        shared = StoredContextProvider(session_store, session_id="team")
        return (
            Session.create(session_store)
            .for_session(session_id)
            .with_context("memory", provider=StoredContextProvider(session_store))
            .with_context("team", provider=shared)
            .with_cached_prompt(StoredPromptStore(session_store))
        )

    mine, other = open_session("mine"), open_session("other")
    await mine.replace_context_block("memory", "my secret")
    await mine.replace_context_block("team", "for all")

    assert "my secret" in await mine.freeze_system_prompt()
    prompt = await other.freeze_system_prompt()
    assert "my secret" not in prompt
    assert "for all" in prompt
    assert await open_session("mine").freeze_system_prompt() == await mine.freeze_system_prompt()


async def test_a_search_block_may_be_given_another_sessions_entries(
    session_store: DirectSessionStore,
) -> None:
    """Whoever names the session gets its entries."""
    mine = Session.create(session_store).for_session("mine")
    other = Session.create(session_store).for_session("other")
    for session in (mine, other):
        provider = StoredSearchProvider(session_store, session_id="mine")
        session.with_context("notes", provider=provider)
    await set_context(mine, "notes", "alpha", metadata={"title": "one"})

    found = await use(other, "search_context", label="notes", query="alpha")

    assert found == "[one]\nalpha"


async def test_r21_titles_that_differ_in_signs_are_two_entries() -> None:
    """`C` and `C++` do not overwrite each other; a plain title keeps its slug (F18)."""
    skills = InMemorySkillProvider()
    session = over(ContextConfig("skills", provider=skills))

    await set_context(session, "skills", "about C", metadata={"title": "C"})
    await set_context(session, "skills", "about C++", metadata={"title": "C++"})
    await set_context(session, "skills", "Arr.", metadata={"title": "Pirate style"})

    assert len(skills.skills) == 3
    assert skills.skills["c"][0] == "about C"
    assert skills.skills["pirate-style"][0] == "Arr."
    assert any(re.fullmatch("c-[0-9a-z]+", key) for key in skills.skills)


async def test_r23_a_failing_provider_costs_its_own_block_only() -> None:
    """Prompt and tools are there; the block is marked (F20)."""
    session = over(
        ContextConfig("broken", provider=Failing()),
        ContextConfig("memory", provider=InMemoryContextProvider("coffee")),
    )

    assert "coffee" in await session.freeze_system_prompt()
    assert set(await session.tools()) == {"set_context"}
    assert [block.is_available for block in await session.get_context_blocks()] == [False, True]


async def test_r24_a_failed_write_changes_nothing() -> None:
    """The block shows what the provider holds (F21)."""

    class Full(SyncMemory):
        def set(self, content: str) -> None:
            raise OSError("disk full")

    session = over(ContextConfig("memory", provider=Full("old")))
    with pytest.raises(OSError, match="disk full"):
        await session.replace_context_block("memory", "new")
    assert await set_context(session, "memory", "new") == "Error: disk full"

    block = await session.get_context_block("memory")
    assert block is not None and block.content == "old"


async def test_r24_two_objects_lose_no_append(session_store: DirectSessionStore) -> None:
    """Both lines are there, whether one after the other or at once (F21)."""
    one = Session.create(session_store).with_context("memory")
    two = Session.create(session_store).with_context("memory")
    await asyncio.gather(one.get_context_blocks(), two.get_context_blocks())

    await one.append_context_block("memory", "a")
    await two.append_context_block("memory", "b")
    await asyncio.gather(
        *(
            (one if number % 2 else two).append_context_block("memory", f"line {number}")
            for number in range(10)
        )
    )

    content = await StoredContextProvider(session_store, "memory").get()
    assert content is not None
    lines = content.split("\n")
    assert lines[:2] == ["a", "b"]
    assert sorted(lines[2:]) == [f"line {number}" for number in range(10)]


async def test_r29_a_block_that_cannot_be_read_leaves_its_label_free(
    session_store: DirectSessionStore,
) -> None:
    """`add_context` raises what its provider raised, and can be called again (F33b)."""
    session = Session.create(session_store)
    with pytest.raises(OSError, match="no answer"):
        await session.add_context("notes", provider=Failing())

    block = await session.add_context("notes", description="Mine")

    assert (block.content, block.is_writable, block.description) == ("", True, "Mine")
    assert [each.label for each in await session.get_context_blocks()] == ["notes"]


async def test_a_block_added_at_run_time_is_stored_and_kept(
    session_store: DirectSessionStore,
) -> None:
    """It stands last; removing it keeps what it holds; neither changes the frozen prompt."""
    session = Session.create(session_store).with_context("memory")
    frozen = await session.freeze_system_prompt()
    await session.add_context("notes")
    await session.replace_context_block("notes", "kept")

    assert [each.label for each in await session.get_context_blocks()] == ["memory", "notes"]
    assert await session.freeze_system_prompt() == frozen
    assert "NOTES" in await session.refresh_system_prompt()
    assert await session.remove_context("notes") is True
    assert await session.remove_context("notes") is False
    assert (await session.add_context("notes")).content == "kept"


async def test_errors_of_blocks(session_store: DirectSessionStore) -> None:
    """What cannot be written says why (11.4)."""
    session = (
        Session.create(session_store)
        .with_context("memory", max_tokens=10)
        .with_context("skills", provider=InMemorySkillProvider())
    )

    with pytest.raises(ContextBlockError, match='Block "memory" exceeds maxTokens: 65 > 10'):
        await session.replace_context_block("memory", "word " * 50)
    with pytest.raises(ContextBlockError, match='Block "skills" is a keyed provider'):
        await session.replace_context_block("skills", "x")
    with pytest.raises(ContextBlockError, match='Block "nobody" is readonly'):
        await session.replace_context_block("nobody", "x")
    with pytest.raises(ContextBlockError, match='Block "nobody" not found'):
        await session.append_context_block("nobody", "x")
