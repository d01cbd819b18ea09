"""The frozen prompt: what keeps it, what changes it and what it costs."""

from __future__ import annotations

import asyncio

from agent_runtime.session.context_provider import StoredPrompt
from agent_runtime.session.static_context import StaticContextProvider
from agent_runtime.testing.context_providers import (
    InMemoryContextProvider,
    InMemoryPromptStore,
    InMemorySkillProvider,
)
from tests.support.context import Context, Failing, ReadOnly, block


async def test_s001_the_prompt_stays_the_same() -> None:
    """It holds labels in upper case and contents."""
    context = Context(
        block("soul", ReadOnly("You are helpful.")),
        block("memory", InMemoryContextProvider("likes TypeScript"), "Facts", 1100),
    )
    first = await context.prompt.freeze_system_prompt()

    assert await context.prompt.freeze_system_prompt() == first
    for text in ("SOUL", "You are helpful.", "MEMORY", "likes TypeScript"):
        assert text in first


async def test_s002_a_write_does_not_change_it() -> None:
    """The provider has it at once."""
    memory = InMemoryContextProvider("original")
    context = Context(block("memory", memory, max_tokens=1100))
    first = await context.prompt.freeze_system_prompt()
    await context.blocks.replace_context_block("memory", "updated")

    assert memory.content == "updated"
    assert await context.prompt.freeze_system_prompt() == first
    assert "original" in first


async def test_s003_refreshing_changes_it() -> None:
    """Once and until the next time."""
    context = Context(block("memory", InMemoryContextProvider("v1")))
    first = await context.prompt.freeze_system_prompt()
    await context.blocks.replace_context_block("memory", "v2")
    assert await context.prompt.freeze_system_prompt() == first

    refreshed = await context.prompt.refresh_system_prompt()
    assert ("v2" in refreshed, "v1" in refreshed) == (True, False)
    assert await context.prompt.freeze_system_prompt() == refreshed


async def test_s006_the_form_of_the_prompt() -> None:
    """Plain text with rules, no tags of a markup language."""
    context = Context(
        block("soul", ReadOnly("helpful")),
        block("memory", InMemoryContextProvider("coffee"), "Facts", 500),
    )
    prompt = await context.prompt.freeze_system_prompt()

    assert all(text in prompt for text in ("═", "SOUL", "MEMORY"))
    assert "<context_block" not in prompt


async def test_s007_skills_are_shown_even_without_any() -> None:
    """The model could not know of the block otherwise."""
    context = Context(block("skills", InMemorySkillProvider(), "Project docs"))
    prompt = await context.prompt.freeze_system_prompt()

    assert "SKILLS" in prompt
    assert "[loadable]" in prompt


async def test_s023_an_empty_writable_block_is_shown() -> None:
    """With its tag."""
    prompt = await Context(
        block("memory", InMemoryContextProvider(None))
    ).prompt.freeze_system_prompt()

    assert "MEMORY [writable]" in prompt


async def test_s026_the_store_holds_exactly_the_text() -> None:
    """And the second call returns the same."""
    store = InMemoryContextProvider(None)
    context = Context(block("memory", InMemoryContextProvider(""), None, 500), prompt_store=store)
    prompt = await context.prompt.freeze_system_prompt()

    assert store.content == prompt
    assert await context.prompt.freeze_system_prompt() == prompt


async def test_s027_a_stored_empty_prompt_is_one() -> None:
    """Empty is not missing."""
    assert await Context(
        prompt_store=InMemoryContextProvider("")
    ).prompt.freeze_system_prompt() == ("")


async def test_an_empty_prompt_is_stored() -> None:
    """A session without blocks renders once too."""
    store = InMemoryContextProvider(None)
    await Context(prompt_store=store).prompt.freeze_system_prompt()

    assert store.content == ""


async def test_a_stored_prompt_loads_no_blocks() -> None:
    """It is the cheap way to begin."""

    class Counting(InMemoryContextProvider):
        reads = 0

        async def get(self) -> str | None:
            self.reads += 1
            return await super().get()

    memory = Counting("x")
    context = Context(
        block("memory", memory), prompt_store=InMemoryContextProvider("stored before")
    )

    assert await context.prompt.freeze_system_prompt() == "stored before"
    assert memory.reads == 0


async def test_another_session_object_gets_the_stored_prompt() -> None:
    """After a restart too, whatever the blocks hold by then."""
    memory, store = InMemoryContextProvider("Fact A"), InMemoryPromptStore()
    prompt = await Context(
        block("memory", memory), prompt_store=store
    ).prompt.freeze_system_prompt()
    memory.content = "Fact B"

    again = Context(block("memory", memory), prompt_store=store)
    assert await again.prompt.freeze_system_prompt() == prompt
    assert "Fact B" in await again.prompt.refresh_system_prompt()
    assert "Fact B" in await again.prompt.freeze_system_prompt()


async def test_freezing_at_the_same_time_gives_one_text() -> None:
    """However many ask."""
    store = InMemoryPromptStore()
    context = Context(block("memory", InMemoryContextProvider("x")), prompt_store=store)
    prompts = await asyncio.gather(*[context.prompt.freeze_system_prompt() for _ in range(5)])

    assert store.prompt is not None
    assert set(prompts) == {store.prompt.prompt}


async def test_adding_and_removing_do_not_change_it() -> None:
    """Neither here nor, by the fingerprint, in the store."""
    store = InMemoryPromptStore()
    context = Context(block("memory", InMemoryContextProvider("x")), prompt_store=store)
    first = await context.prompt.freeze_system_prompt()
    await context.blocks.add_context("extra", provider=ReadOnly("y"))
    await context.blocks.remove_context("memory")

    assert await context.prompt.freeze_system_prompt() == first
    refreshed = await context.prompt.refresh_system_prompt()
    assert ("EXTRA" in refreshed, "MEMORY" in refreshed) == (True, False)
    assert await context.prompt.freeze_system_prompt() == refreshed


async def test_r19_a_new_release_changes_the_prompt() -> None:
    """Its instructions are in force at once, and stored for the next object."""
    store = InMemoryPromptStore()

    async def open_with(text: str) -> str:
        soul = block("soul", StaticContextProvider(text))
        return await Context(soul, prompt_store=store).prompt.freeze_system_prompt()

    assert "Be kind." in await open_with("Be kind.")
    newer = await open_with("Be brief.")
    assert ("Be brief." in newer, "Be kind." in newer) == (True, False)
    assert store.prompt is not None
    assert store.prompt.prompt == newer


async def test_r19_a_changed_list_of_blocks_changes_the_prompt() -> None:
    """Another label, description, limit or kind as well."""
    variants = [
        block("memory", InMemoryContextProvider("x")),
        block("notes", InMemoryContextProvider("x")),
        block("notes", InMemoryContextProvider("x"), "Facts"),
        block("notes", InMemoryContextProvider("x"), "Facts", 100),
        block("notes", ReadOnly("x"), "Facts", 100),
    ]
    store = InMemoryPromptStore()
    prompts = [
        await Context(variant, prompt_store=store).prompt.freeze_system_prompt()
        for variant in variants
    ]

    assert len(set(prompts)) == len(variants)


async def test_r19_other_changes_are_not_a_release() -> None:
    """What a user told the agent stays out until it is refreshed."""
    memory, store = InMemoryContextProvider("A"), InMemoryPromptStore()
    blocks = [block("memory", memory), block("soul", StaticContextProvider("Be kind."))]
    first = await Context(*blocks, prompt_store=store).prompt.freeze_system_prompt()
    memory.content = "B"

    assert await Context(*blocks, prompt_store=store).prompt.freeze_system_prompt() == first


async def test_a_prompt_of_unknown_origin_is_honoured() -> None:
    """Old data has no fingerprint."""
    store = InMemoryPromptStore(StoredPrompt("from before"))

    assert (
        await Context(block("soul", StaticContextProvider("x")), prompt_store=store)
        .prompt.freeze_system_prompt()
    ) == "from before"  # fmt: skip


async def test_an_unreadable_static_block_keeps_the_stored_prompt() -> None:
    """A whole prompt is better than one with a hole."""
    soul, store = Failing("Be kind."), InMemoryPromptStore()
    soul.is_static = True  # type: ignore[attr-defined]
    soul.is_broken = False
    first = await Context(block("soul", soul), prompt_store=store).prompt.freeze_system_prompt()
    soul.is_broken = True

    assert await Context(block("soul", soul), prompt_store=store).prompt.freeze_system_prompt() == (
        first
    )


async def test_a_prompt_with_a_hole_is_not_stored() -> None:
    """This object keeps to it; the next one makes a whole one."""
    facts, store = Failing("Facts"), InMemoryContextProvider(None)
    blocks = [block("facts", facts), block("soul", ReadOnly("Be kind."))]
    context = Context(*blocks, prompt_store=store)
    prompt = await context.prompt.freeze_system_prompt()
    facts.is_broken = False

    assert "FACTS" not in prompt
    assert (await context.prompt.freeze_system_prompt(), store.content) == (prompt, None)
    whole = await Context(*blocks, prompt_store=store).prompt.freeze_system_prompt()
    assert ("FACTS" in whole, store.content) == (True, whole)


async def test_a_refreshed_prompt_with_a_hole_is_this_objects_own() -> None:
    """The whole one that is stored stays for the others."""
    facts, store = Failing("Facts"), InMemoryContextProvider(None)
    facts.is_broken = False
    whole = await Context(block("facts", facts), prompt_store=store).prompt.freeze_system_prompt()
    facts.is_broken = True
    context = Context(block("facts", facts), prompt_store=store)
    refreshed = await context.prompt.refresh_system_prompt()

    assert ("FACTS" in whole, "FACTS" in refreshed) == (True, False)
    assert await context.prompt.freeze_system_prompt() == refreshed
    assert store.content == whole
    facts.is_broken = False
    assert await context.prompt.refresh_system_prompt() == store.content == whole


async def test_refreshing_reads_what_was_changed_before_it() -> None:
    """Even if a reading was under way."""

    class Slow(InMemoryContextProvider):
        async def get(self) -> str | None:
            content = self.content
            await asyncio.sleep(0)
            return content

    memory = Slow("old")
    context = Context(block("memory", memory))
    loading = asyncio.ensure_future(context.blocks.load())
    await asyncio.sleep(0)
    memory.content = "new"

    assert "new" in await context.prompt.refresh_system_prompt()
    await loading


async def test_what_was_added_is_no_other_configuration() -> None:
    """The prompt with it is good for an object that was set up in the same way."""
    store = InMemoryPromptStore()
    blocks = [block("memory", InMemoryContextProvider("x"))]
    context = Context(*blocks, prompt_store=store)
    await context.blocks.add_context("extra", provider=ReadOnly("y"))
    prompt = await context.prompt.freeze_system_prompt()

    assert "EXTRA" in prompt
    assert await Context(*blocks, prompt_store=store).prompt.freeze_system_prompt() == prompt


async def test_the_text_for_estimates_keeps_and_stores_nothing() -> None:
    """Snapshot, else stored prompt, else what would be rendered now."""
    memory, store = InMemoryContextProvider("v1"), InMemoryContextProvider(None)
    context = Context(block("memory", memory), prompt_store=store)

    assert "v1" in await context.prompt.text_for_estimate()
    assert store.content is None
    memory.content = "v2"
    await context.blocks.load()
    assert "v2" in await context.prompt.text_for_estimate()

    frozen = await context.prompt.freeze_system_prompt()
    store.content = "by another"
    assert await context.prompt.text_for_estimate() == frozen
    other = Context(block("memory", memory), prompt_store=store)
    assert await other.prompt.text_for_estimate() == "by another"


async def test_a_provider_that_asks_for_its_own_prompt_is_told_so() -> None:
    """It would wait for itself for ever."""

    class Asking:
        context: Context

        async def get(self) -> str:
            return await self.context.prompt.freeze_system_prompt()

    provider = Asking()
    provider.context = Context(block("asking", provider), block("soul", ReadOnly("Be kind.")))
    prompt = await provider.context.prompt.freeze_system_prompt()

    assert ("ASKING" in prompt, "Be kind." in prompt) == (False, True)
