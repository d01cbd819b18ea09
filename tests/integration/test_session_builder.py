"""Making a session: the chain, the direct constructor, and what each is made over (18)."""

from __future__ import annotations

import pytest

from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.errors import ContextBlockError, SessionSetupError
from agent_runtime.session.context_block import ContextConfig
from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.session import Session
from agent_runtime.session.session_store import session_ref
from agent_runtime.session.stored_session import StoredSessionProvider
from agent_runtime.testing.context_providers import InMemoryContextProvider
from tests.support.context import ReadOnly
from tests.support.session import (
    Owner,
    Summaries,
    append_chain,
    ids,
    load_part,
    set_context,
    user,
    with_parts,
)
from tests.support.session_providers import PlainMessages


async def stored_block(store: DirectSessionStore, label: str, session_id: str = "") -> str | None:
    """Return what a session's own block holds."""
    row = await store.reads.context(session_ref(store, session_id), label)
    return row.content if row is not None else None


async def stored_prompt(store: DirectSessionStore, session_id: str = "") -> str | None:
    """Return a session's frozen prompt."""
    row = await store.reads.prompt(session_ref(store, session_id))
    return row.prompt if row is not None else None


def test_s014_an_owner_gives_a_session(session_store: DirectSessionStore) -> None:
    """The chain begins with whoever has a store."""
    assert isinstance(Session.create(Owner(session_store)), Session)


async def test_s015_the_first_use_needs_no_further_step(session_store: DirectSessionStore) -> None:
    """A session that was only created can be read."""
    assert await Session.create(session_store).get_history() == []


async def test_s016_a_block_without_provider_is_kept_in_the_store(
    session_store: DirectSessionStore,
) -> None:
    """What the model writes is stored under the block's label."""
    session = Session.create(session_store).with_context(
        "memory", description="Facts", max_tokens=1100
    )

    await set_context(session, "memory", "test fact")

    assert await stored_block(session_store, "memory") == "test fact"


@pytest.mark.parametrize(
    ("label", "text"), [("soul", "You are helpful."), ("config", "loaded from external")]
)
async def test_s017_s022_a_provider_that_is_only_read(
    session_store: DirectSessionStore, label: str, text: str
) -> None:
    """Its text is in the prompt; it calls for no tools."""
    session = Session.create(session_store).with_context(label, provider=ReadOnly(text))

    prompt = await session.freeze_system_prompt()

    assert label.upper() in prompt and text in prompt
    assert await session.tools() == {}


async def test_s018_the_cached_prompt_is_what_was_returned(
    session_store: DirectSessionStore,
) -> None:
    """The store holds exactly the frozen prompt, and it is returned again."""
    session = (
        Session.create(session_store)
        .with_context("soul", provider=ReadOnly("Be kind."))
        .with_cached_prompt()
    )

    first = await session.freeze_system_prompt()

    assert "Be kind." in first
    assert await stored_prompt(session_store) == first
    assert await session.freeze_system_prompt() == first


async def test_s019_a_session_s_blocks_and_prompt_are_its_own(
    session_store: DirectSessionStore,
) -> None:
    """Nothing of `chat-123` is in the default session."""
    session = (
        Session.create(session_store)
        .for_session("chat-123")
        .with_context("memory", max_tokens=1100)
        .with_cached_prompt()
    )

    await set_context(session, "memory", "namespaced fact")
    prompt = await session.freeze_system_prompt()

    assert await stored_block(session_store, "memory", "chat-123") == "namespaced fact"
    assert await stored_block(session_store, "memory") is None
    assert await stored_prompt(session_store, "chat-123") == prompt
    assert await stored_prompt(session_store) is None


async def test_s020_an_explicit_provider_is_used(session_store: DirectSessionStore) -> None:
    """Its content is in the prompt, and the store has no block of that label."""
    session = Session.create(session_store).with_context(
        "memory", provider=InMemoryContextProvider("custom data")
    )

    assert "custom data" in await session.freeze_system_prompt()
    assert await stored_block(session_store, "memory") is None


async def test_s021_a_block_is_replaced_in_the_store(session_store: DirectSessionStore) -> None:
    """The second text takes the first one's place."""
    session = Session.create(session_store).with_context("notes", max_tokens=500)

    await set_context(session, "notes", "first notes")
    await set_context(session, "notes", "updated notes")

    assert await stored_block(session_store, "notes") == "updated notes"


async def test_s023_an_empty_writable_block_is_shown(session_store: DirectSessionStore) -> None:
    """The model sees that it may write to it."""
    session = Session.create(session_store).with_context(
        "memory", provider=InMemoryContextProvider()
    )

    prompt = await session.freeze_system_prompt()

    assert "MEMORY" in prompt and "[writable]" in prompt


@pytest.mark.parametrize("is_last", [False, True])
async def test_s024_s025_the_session_may_be_named_at_any_place(
    session_store: DirectSessionStore, is_last: bool
) -> None:
    """Blocks and prompt follow the name, however late it comes."""
    session = Session.create(session_store)
    if not is_last:
        session.for_session("abc")
    session.with_context("memory", max_tokens=500).with_cached_prompt()
    if is_last:
        session.for_session("abc")

    await set_context(session, "memory", "late namespace")
    prompt = await session.freeze_system_prompt()

    assert await stored_block(session_store, "memory", "abc") == "late namespace"
    assert await stored_block(session_store, "memory") is None
    assert await stored_prompt(session_store, "abc") == prompt
    assert await stored_prompt(session_store) is None


async def test_keys_of_blocks_cannot_collide(session_store: DirectSessionStore) -> None:
    """Block `memory_a` of the default session is not block `memory` of session `a` (F33c)."""
    plain = Session.create(session_store).with_context("memory_a")
    named = Session.create(session_store).for_session("a").with_context("memory")

    await plain.replace_context_block("memory_a", "of the default session")
    await named.replace_context_block("memory", "of session a")

    assert await stored_block(session_store, "memory_a") == "of the default session"
    assert await stored_block(session_store, "memory", "a") == "of session a"


@pytest.mark.parametrize("source", [object(), "path", None, 3])
async def test_a_session_over_something_else_raises_when_used(source: object) -> None:
    """Making it is no error yet; the message says what to give."""
    for session in (Session.create(source), Session(source)):  # type: ignore[arg-type]
        with pytest.raises(SessionSetupError, match="give an agent, a session store"):
            await session.get_history()


async def test_set_up_after_the_first_use_raises(session_store: DirectSessionStore) -> None:
    """Nothing of the chain is ignored silently (F38)."""
    session = Session.create(session_store)
    await session.get_history()

    with pytest.raises(SessionSetupError, match="with_context came after"):
        session.with_context("late")
    with pytest.raises(SessionSetupError, match="with_cached_prompt came after"):
        session.with_cached_prompt()
    with pytest.raises(SessionSetupError, match="for_session came after"):
        session.for_session("late")


async def test_compaction_may_be_set_up_at_any_time(session_store: DirectSessionStore) -> None:
    """Function, threshold, error handler and listener are no part of what is built."""
    session = Session.create(session_store)
    await append_chain(session, 3)
    seen: list[Exception] = []
    function = Summaries(OSError("down"))

    session.on_compaction(function).compact_after(10).on_compaction_error(seen.append)
    session.on_change(lambda event: None)
    await append_chain(session, 1, start=3)

    assert [str(error) for error in seen] == ["down"]


async def test_an_earlier_counter_stays(session_store: DirectSessionStore) -> None:
    """`compact_after` without a counter changes the threshold alone."""
    function = Summaries(None)
    session = Session.create(session_store).on_compaction(function)
    session.compact_after(1000, token_counter=lambda given: 50.0).compact_after(49)

    await append_chain(session, 1)

    assert len(function.seen) == 1


async def test_r22_a_tail_that_reaches_the_threshold_is_refused(
    session_store: DirectSessionStore,
) -> None:
    """In either order, and what was set before stays (F19)."""

    async def summarize(prompt: str) -> str:
        return "summary"

    session = Session.create(session_store).compact_after(300)
    with pytest.raises(SessionSetupError, match="tail of 400 tokens"):
        session.on_compaction(create_compact_function(summarize, tail_token_budget=400))
    session.on_compaction(create_compact_function(summarize, tail_token_budget=100))
    with pytest.raises(SessionSetupError, match="threshold of 100 tokens"):
        session.compact_after(100)

    await append_chain(session, 12, text="x" * 200)
    assert await session.get_compactions() != []


async def test_r29_two_blocks_of_one_label_are_refused(session_store: DirectSessionStore) -> None:
    """By the chain, by the constructor, and at run time (F33)."""
    session = Session.create(session_store).with_context("memory")
    with pytest.raises(SessionSetupError, match='two context blocks are called "memory"'):
        session.with_context("memory")
    with pytest.raises(SessionSetupError, match="two context blocks"):
        Session(PlainMessages(), context=[ContextConfig("a"), ContextConfig("a")])
    with pytest.raises(ContextBlockError, match='Block "memory" already exists'):
        await session.add_context("memory")


async def test_the_direct_constructor_does_the_same(session_store: DirectSessionStore) -> None:
    """History, prompt, tools, skills and compaction of both are alike (18.2, F15b)."""
    provider = StoredSessionProvider(session_store, "one")
    built = Session.create(session_store).for_session("one")
    built.with_context("soul", provider=ReadOnly("Be kind."))
    direct = Session(provider, context=[ContextConfig("soul", provider=ReadOnly("Be kind."))])

    await append_chain(built, 3)
    await append_chain(direct, 3, start=3)
    for session in (built, direct):
        session.on_compaction(Summaries(("m1", "m2", "both")))

    assert ids(await built.get_history()) == ids(await direct.get_history())
    assert await built.freeze_system_prompt() == await direct.freeze_system_prompt()
    assert (await direct.compact()) is not None
    assert ids(await built.get_history()) == ["m0", "S", "m3", "m4", "m5"]
    assert await built.estimate_tokens() == await direct.estimate_tokens()


async def test_the_direct_constructor_restores_and_reclaims_skills() -> None:
    """A load in the history is tracked, and unloading takes its text out (F15b)."""
    provider = PlainMessages()
    provider.append_message(with_parts("a1", load_part("pirate", "Arr.")))
    skills = ContextConfig("skills", provider=_Skills())
    session = Session(provider, context=[skills])

    assert await session.get_loaded_skill_keys() == {"skills:pirate"}
    assert await session.unload_skill("skills", "pirate") is True
    assert provider.messages["a1"]["parts"][0]["output"] == "[skill unloaded: pirate]"


async def test_the_direct_constructor_takes_all_of_the_set_up() -> None:
    """Prompt store, counter and error handler are those given."""
    prompt_store = InMemoryContextProvider()
    seen: list[Exception] = []
    session = Session(
        PlainMessages(),
        context=[ContextConfig("soul", provider=ReadOnly("Be kind."))],
        prompt_store=prompt_store,
        token_counter=lambda given: 99.0,
        on_compaction_error=seen.append,
    )
    session.compact_after(98).on_compaction(Summaries(OSError("down")))

    prompt = await session.freeze_system_prompt()
    await session.append_message(user("m0"))

    assert prompt_store.content == prompt
    assert [str(error) for error in seen] == ["down"]


async def test_the_constructor_can_be_chained(session_store: DirectSessionStore) -> None:
    """`with_context` before the first use is as good as the argument."""
    session = Session(PlainMessages()).with_context("soul", provider=ReadOnly("Be kind."))

    assert "Be kind." in await session.freeze_system_prompt()


async def test_a_store_of_one_s_own_ignores_the_session_s_name() -> None:
    """It is one session's already (18.1)."""
    provider = PlainMessages()
    await Session.create(provider).for_session("a").append_message(user("m0"))

    assert ids(await Session.create(provider).for_session("b").get_history()) == ["m0"]


async def test_a_store_of_one_s_own_gives_no_providers() -> None:
    """A block without one is empty, read-only and not shown; the prompt is kept nowhere."""
    session = Session.create(PlainMessages()).with_context("memory").with_cached_prompt()

    assert await session.freeze_system_prompt() == ""
    assert await session.tools() == {}
    with pytest.raises(ContextBlockError, match="readonly"):
        await session.replace_context_block("memory", "x")
    with pytest.raises(ContextBlockError, match=r'addContext\("notes"\) requires an explicit'):
        await session.add_context("notes")


class _Skills:
    """A collection of one document."""

    def get(self) -> str:
        """List it."""
        return "- pirate"

    def load(self, key: str) -> str | None:
        """Return it."""
        return "Arr." if key == "pirate" else None
