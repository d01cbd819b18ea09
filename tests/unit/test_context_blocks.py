"""Loading, writing, adding and removing context blocks."""

from __future__ import annotations

import asyncio

import pytest

from agent_runtime.errors import ContextBlockError, SessionSetupError
from agent_runtime.session.context_blocks import ContextBlocks, joined
from agent_runtime.testing.context_providers import (
    InMemoryContextProvider,
    InMemorySearchProvider,
    InMemorySkillProvider,
)
from tests.support.context import Context, Failing, ReadOnly, block


class Recording(ReadOnly):
    """A provider that tells what was asked of it."""

    def __init__(self, calls: list[str], text: str | None = None) -> None:
        super().__init__(text)
        self.calls = calls
        self.label: str | None = None

    async def init(self, label: str) -> None:
        """Take the label."""
        self.label = label
        self.calls.append(f"init:{label}")

    def get(self) -> str | None:
        """Return the text, or one that names the label."""
        self.calls.append("get")
        return self.text if self.text is not None else f"content for {self.label}"


class Slow(InMemoryContextProvider):
    """A writable provider that lets others in between."""

    reads = 0

    async def get(self) -> str | None:
        """Return the content after a while."""
        self.reads += 1
        content = self.content
        await asyncio.sleep(0)
        return content


async def test_s004_a_read_only_block_cannot_be_set() -> None:
    """The error says why."""
    context = Context(block("soul", ReadOnly("identity")))

    with pytest.raises(ContextBlockError, match='Block "soul" is readonly'):
        await context.blocks.replace_context_block("soul", "hacked")


async def test_s005_a_limit_is_kept() -> None:
    """Nothing changes when a write is too long."""
    memory = InMemoryContextProvider("")
    context = Context(block("memory", memory, max_tokens=10))

    with pytest.raises(ContextBlockError, match='"memory" exceeds maxTokens: 65 > 10'):
        await context.blocks.replace_context_block("memory", "word " * 50)
    assert (memory.content, (await context.block("memory")).content) == ("", "")


async def test_a_limit_of_0_is_a_limit() -> None:
    """Only the empty text fits."""
    context = Context(block("memory", InMemoryContextProvider(), max_tokens=0))

    with pytest.raises(ContextBlockError, match="2 > 0"):
        await context.blocks.replace_context_block("memory", "a")
    assert (await context.blocks.replace_context_block("memory", "")).content == ""


async def test_what_a_provider_holds_may_exceed_the_limit() -> None:
    """Loading does not enforce it."""
    context = Context(block("memory", InMemoryContextProvider("word " * 50), max_tokens=10))

    assert (await context.block("memory")).tokens == 65


async def test_a_block_of_no_provider_is_empty() -> None:
    """And nobody can write it."""
    context = Context(block("notes"))

    found = await context.block("notes")
    assert (found.content, found.is_writable) == ("", False)
    with pytest.raises(ContextBlockError, match="readonly"):
        await context.blocks.replace_context_block("notes", "x")


async def test_an_unknown_block_is_none() -> None:
    """Writing to it says so in the words of each kind of write."""
    blocks = ContextBlocks()

    assert await blocks.get_context_block("nope") is None
    with pytest.raises(ContextBlockError, match='Block "nope" is readonly'):
        await blocks.replace_context_block("nope", "x")
    with pytest.raises(ContextBlockError, match='Block "nope" not found'):
        await blocks.append_context_block("nope", "x")
    with pytest.raises(ContextBlockError, match='Block "nope" is not a skill provider'):
        await blocks.set_skill("nope", "k", "x")
    with pytest.raises(ContextBlockError, match='Block "nope" is not a search provider'):
        await blocks.set_search_entry("nope", "k", "x")


async def test_keyed_blocks_are_not_written_whole() -> None:
    """Nor added to."""
    context = Context(block("skills", InMemorySkillProvider()))

    for write in (context.blocks.replace_context_block, context.blocks.append_context_block):
        with pytest.raises(ContextBlockError, match=r"keyed provider\. Use set_skill\(\)"):
            await write("skills", "x")


async def test_blocks_are_loaded_when_first_asked_for() -> None:
    """F32: nobody gets "nothing" because nothing was asked before."""
    context = Context(block("memory", InMemoryContextProvider("likes tea")))

    assert [found.content for found in await context.blocks.get_context_blocks()] == ["likes tea"]


@pytest.mark.parametrize("label", ["soul", "memory", "skills", "knowledge"])
async def test_s166_s167_s168_s169_providers_get_their_label(label: str) -> None:
    """Whatever kind they are of."""
    base = {
        "soul": ReadOnly,
        "memory": InMemoryContextProvider,
        "skills": InMemorySkillProvider,
        "knowledge": InMemorySearchProvider,
    }[label]
    labels = []

    class Told(base):  # type: ignore[misc, valid-type]
        def init(self, label: str) -> None:
            labels.append(label)

    provider = Told("x") if label == "soul" else Told()
    await Context(block(label, provider)).blocks.load()

    assert labels == [label]


async def test_s170_the_label_comes_before_the_first_reading() -> None:
    """A provider may need it to know what to read."""
    calls: list[str] = []
    await Context(block("test", Recording(calls))).blocks.load()

    assert calls == ["init:test", "get"]


async def test_s171_each_gets_its_own_label_in_order() -> None:
    """The order is the one of registration."""
    calls: list[str] = []
    labels = ("soul", "memory", "knowledge")
    await Context(*[block(label, Recording(calls)) for label in labels]).blocks.load()

    assert calls[::2] == ["init:soul", "init:memory", "init:knowledge"]


async def test_s172_the_label_is_not_forced_on_anybody() -> None:
    """A provider without `init` works."""
    assert (await Context(block("b", ReadOnly("static content"))).block("b")).content == (
        "static content"
    )


async def test_s174_the_label_is_told_once_for_one_loading() -> None:
    """Tools that are asked for twice load no more."""
    calls: list[str] = []
    context = Context(block("memory", Recording(calls)))
    await context.blocks.load()
    await context.tools()
    await context.tools()

    assert calls == ["init:memory", "get"]


async def test_s175_a_provider_may_use_its_label() -> None:
    """Even in what it returns."""
    assert (await Context(block("my-block", Recording([]))).block("my-block")).content == (
        "content for my-block"
    )


async def test_loading_again_reads_again() -> None:
    """Every provider is told its label again, and positions stay."""
    calls: list[str] = []
    context = Context(block("a", Recording(calls)), block("b", ReadOnly("x")))
    await context.blocks.load()
    await context.blocks.load()

    assert calls == ["init:a", "get", "init:a", "get"]
    assert [found.label for found in await context.blocks.get_context_blocks()] == ["a", "b"]


async def test_loading_at_the_same_time_is_one_reading() -> None:
    """Who comes later waits for it."""
    memory = Slow("x")
    context = Context(block("memory", memory))
    await asyncio.gather(*[context.blocks.load() for _ in range(5)], context.tools())

    assert memory.reads == 1


async def test_reloading_begins_after_the_call() -> None:
    """What was changed before it is seen, even if a loading was under way."""
    memory = Slow("old")
    context = Context(block("memory", memory))
    loading = asyncio.ensure_future(context.blocks.load())
    await asyncio.sleep(0)
    memory.content = "new"
    await context.blocks.reload()
    await loading

    assert (await context.block("memory")).content == "new"


async def test_a_cancelled_loading_leaves_it_to_the_next() -> None:
    """Others who waited for it are not cancelled with it."""
    memory = Slow("x")
    context = Context(block("memory", memory))
    first = asyncio.ensure_future(context.blocks.load())
    second = asyncio.ensure_future(context.blocks.get_context_block("memory"))
    await asyncio.sleep(0)
    first.cancel()

    found = await second
    assert found is not None
    assert (first.cancelled(), found.content) == (True, "x")


async def test_a_provider_that_asks_its_own_session_is_told_so() -> None:
    """It would wait for itself for ever."""

    class Asking:
        context: Context

        async def get(self) -> str:
            await self.context.blocks.reload()
            return "never"

    provider = Asking()
    provider.context = Context(block("asking", provider), block("soul", ReadOnly("x")))

    assert (await provider.context.block("asking")).is_available is False
    assert (await provider.context.block("soul")).content == "x"


async def test_r23_a_failing_provider_degrades_its_block_only() -> None:
    """Tools and prompt are there, the block is marked and comes back by itself."""
    failing = Failing("Facts")
    context = Context(block("facts", failing), block("memory", InMemoryContextProvider("tea")))

    assert "set_context" in await context.tools()
    assert "tea" in await context.prompt.freeze_system_prompt()
    assert (await context.block("facts")).is_available is False

    failing.is_broken = False
    await context.blocks.load()
    found = await context.block("facts")
    assert (found.content, found.is_available) == ("Facts", True)

    failing.is_broken = True
    await context.blocks.load()
    found = await context.block("facts")
    assert (found.content, found.is_available) == ("Facts", False)


async def test_an_answer_that_is_no_text_is_a_failure() -> None:
    """It must not end up in the prompt."""

    class Odd:
        def get(self) -> dict[str, str]:
            return {}

    context = Context(block("odd", Odd()))  # type: ignore[arg-type]

    assert (await context.block("odd")).is_available is False


async def test_r24_a_failed_write_changes_nothing() -> None:
    """The provider comes first, memory after it."""

    class Full(InMemoryContextProvider):
        async def set(self, content: str) -> None:
            raise OSError("full")

    context = Context(block("memory", Full("old")))

    with pytest.raises(OSError, match="full"):
        await context.blocks.replace_context_block("memory", "new")
    assert (await context.block("memory")).content == "old"


@pytest.mark.parametrize("base", [InMemoryContextProvider, ReadOnly])
async def test_r24_two_sessions_append(base: type) -> None:
    """What another one wrote meanwhile stays, whatever the provider can do."""

    class Notes(base):  # type: ignore[misc]
        async def set(self, content: str) -> None:
            self.content = self.text = content

    notes = Notes("")
    one, two = Context(block("notes", notes)), Context(block("notes", notes))
    await one.blocks.load()
    await two.blocks.load()
    await one.blocks.append_context_block("notes", "a")
    await two.blocks.append_context_block("notes", "b")

    assert notes.content == "a\nb"


async def test_r24_two_sessions_append_at_the_same_time() -> None:
    """A provider that can compare loses neither, however the two are interleaved."""
    notes = Slow("")
    contexts = [Context(block("notes", notes)) for _ in range(20)]
    await asyncio.gather(
        *[
            context.blocks.append_context_block("notes", str(number))
            for number, context in enumerate(contexts)
        ]
    )

    assert notes.content is not None
    assert sorted(map(int, notes.content.split("\n"))) == list(range(20))


async def test_appending_to_what_never_stays_the_same_gives_up() -> None:
    """It does not try for ever."""

    class Restless(InMemoryContextProvider):
        async def compare_and_set(self, expected: str | None, content: str) -> bool:
            return False

    with pytest.raises(ContextBlockError, match="try again later"):
        await Context(block("b", Restless())).blocks.append_context_block("b", "x")


async def test_appending_keeps_to_the_limit() -> None:
    """The whole counts."""
    memory = InMemoryContextProvider("word " * 7)
    context = Context(block("memory", memory, max_tokens=10))

    with pytest.raises(ContextBlockError, match="exceeds maxTokens: 11 > 10"):
        await context.blocks.append_context_block("memory", "more")
    assert memory.content == "word " * 7


def test_what_appending_gives() -> None:
    """As the examples of 11.4 say."""
    assert joined("", "a") == "a"
    assert joined("a", "b") == "a\nb"
    assert joined("a\nb", "\nc") == "a\nb\nc"
    assert joined("a\nb\nc", "") == "a\nb\nc\n"


async def test_s144_a_written_skill_is_listed() -> None:
    """The block's content follows."""
    context = Context(block("skills", InMemorySkillProvider()))
    await context.use(
        "set_context",
        label="skills",
        content="Say hello warmly",
        metadata={"title": "Greeting instructions"},
    )

    assert "greeting-instructions" in (await context.block("skills")).content


async def test_s165_a_written_entry_is_counted() -> None:
    """The block's content follows."""
    context = Context(block("knowledge", InMemorySearchProvider({"a": "x"})))
    await context.use("set_context", label="knowledge", content="y")

    assert "2 entries" in (await context.block("knowledge")).content


async def test_a_listing_of_nothing() -> None:
    """A skill block keeps what it showed, a search block is empty."""

    class Silent(InMemorySkillProvider, InMemorySearchProvider):
        answer: str | None = "before"

        async def get(self) -> str | None:
            return self.answer

    skills, search = Silent({}), InMemorySearchProvider({"a": "x"})
    context = Context(block("skills", skills), block("knowledge", search))
    await context.blocks.load()
    skills.answer = None
    search.get = lambda: None  # type: ignore[assignment, method-assign, return-value]

    assert (await context.blocks.set_skill("skills", "k", "x")).content == "before"
    assert (await context.blocks.set_search_entry("knowledge", "k", "x")).content == ""


async def test_a_listing_that_fails_does_not_undo_the_entry() -> None:
    """It is stored, so the write has not failed; the block is marked."""

    class Forgetful(InMemorySkillProvider):
        async def get(self) -> str | None:
            if self.skills:
                raise OSError("no answer")
            return None

    skills = Forgetful()
    context = Context(block("skills", skills))
    result = await context.use("set_context", label="skills", content="x", metadata={"title": "T"})

    assert (result, [*skills.skills]) == ('Indexed "t" in skills.', ["t"])
    assert (await context.block("skills")).is_available is False


async def test_r29_labels_are_unique() -> None:
    """A second block of a label is refused at registration and at run time."""
    with pytest.raises(SessionSetupError, match='called "memory"'):
        Context(block("memory"), block("memory"))

    context = Context(block("memory"))
    with pytest.raises(ContextBlockError, match='Block "memory" already exists'):
        await context.blocks.add_context("memory")


async def test_r29_a_failed_addition_leaves_the_label_free() -> None:
    """The error comes through, and the next try works."""
    failing = Failing("Facts")
    context = Context()

    with pytest.raises(OSError, match="no answer"):
        await context.blocks.add_context("facts", provider=failing)
    assert await context.blocks.get_context_blocks() == []

    failing.is_broken = False
    assert (await context.blocks.add_context("facts", provider=failing)).content == "Facts"


async def test_an_added_block_is_last() -> None:
    """It is told its label and read at once; a removed one is gone."""
    calls: list[str] = []
    context = Context(block("a", ReadOnly("x")), block("b", ReadOnly("y")))
    await context.blocks.add_context("c", description="Third", provider=Recording(calls))
    labels = [found.label for found in await context.blocks.get_context_blocks()]

    assert (labels, calls) == (["a", "b", "c"], ["init:c", "get"])
    assert await context.blocks.remove_context("a") is True
    assert await context.blocks.remove_context("a") is False
    assert await context.blocks.get_context_block("a") is None


async def test_a_removed_block_can_be_added_again() -> None:
    """Its content is still with its provider."""
    memory = InMemoryContextProvider("kept")
    context = Context(block("memory", memory))
    await context.blocks.remove_context("memory")

    assert (await context.blocks.add_context("memory", provider=memory)).content == "kept"
