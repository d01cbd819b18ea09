"""The tools over a session's context: which exist, what they say and what they do."""

from __future__ import annotations

import re

import pytest

from agent_runtime.errors import ConfigurationError, ContextBlockError
from agent_runtime.json_value import Json
from agent_runtime.session.session_provider import SearchHit
from agent_runtime.session.tool import (
    MAX_RESULT_CHARACTERS,
    Tool,
    capped,
    to_anthropic_tool,
    to_openai_tool,
)
from agent_runtime.session.tools import session_search_tool
from agent_runtime.testing.context_providers import (
    InMemoryContextProvider,
    InMemorySearchProvider,
    InMemorySkillProvider,
)
from tests.support.context import Context, ReadOnly, block

REVIEW = ("# Code Review\nCheck for bugs.", "Code review")
NOTES = "The deployment timeline was agreed."


class FindingOnly:
    """A search provider that nobody writes to."""

    async def get(self) -> str:
        """Return a summary."""
        return "many"

    async def search(self, query: str) -> str | None:
        """Return the query, or nothing for "nothing"."""
        return None if query == "nothing" else f"found {query}"


class LoadingOnly:
    """A skill provider that nobody writes to."""

    async def get(self) -> str:
        """Return a listing."""
        return "- one"

    async def load(self, key: str) -> str | None:
        """Return an empty document."""
        return "" if key == "one" else None


def _skills() -> InMemorySkillProvider:
    return InMemorySkillProvider({"code-review": REVIEW})


async def test_s008_set_context_names_the_writable_blocks() -> None:
    """And no read-only one; nobody had to load."""
    context = Context(
        block("soul", ReadOnly("identity")),
        block("memory", InMemoryContextProvider(""), "Learned facts", 1100),
        block("todos", InMemoryContextProvider(""), "Task list", 2000),
    )
    description = (await context.tools())["set_context"].description

    assert all(label in description for label in ("memory", "todos"))
    assert "soul" not in description


async def test_s009_set_context_tells_the_kinds() -> None:
    """One line a block, and how keyed entries are named."""
    context = Context(
        block("memory", InMemoryContextProvider(), "Learned facts"),
        block("skills", InMemorySkillProvider(), "Loadable docs"),
        block("knowledge", InMemorySearchProvider(), "Searchable docs"),
        block("notes", InMemoryContextProvider()),
    )
    tool = (await context.tools())["set_context"]

    lines = tool.description.splitlines()
    assert '- "memory" (writable): Learned facts' in lines
    assert '- "skills" (skill collection, keyed entries): Loadable docs' in lines
    assert '- "knowledge" (searchable, keyed entries): Searchable docs' in lines
    assert '- "notes" (writable): no description' in lines
    assert "metadata: { title, description }" in tool.description
    properties = tool.parameters["properties"]
    assert properties["label"]["enum"] == ["memory", "skills", "knowledge", "notes"]
    assert properties["action"]["enum"] == ["replace", "append"]
    assert '"skills", "knowledge"' in properties["metadata"]["description"]
    assert tool.parameters["required"] == ["label", "content"]


async def test_metadata_is_for_keyed_blocks() -> None:
    """Without one there is no such parameter."""
    tool = (await Context(block("memory", InMemoryContextProvider())).tools())["set_context"]

    assert "metadata" not in tool.parameters["properties"]
    assert "metadata" not in tool.description


async def test_s010_s140_set_context_writes() -> None:
    """And tells the usage."""
    memory = InMemoryContextProvider("")
    context = Context(block("memory", memory, "Facts", 1100))
    result = await context.use("set_context", label="memory", content="user likes coffee")

    assert result == "Written to memory. Usage: 0% (5/1100 tokens)"
    assert memory.content == "user likes coffee"


@pytest.mark.parametrize(
    ("max_tokens", "content", "usage"),
    [
        (1100, "x" * 1980, "45% (495/1100 tokens)"),
        (1000, "user likes coffee", "1% (5/1000 tokens)"),
        (None, "user likes coffee", "5 tokens"),
    ],
)
async def test_golden_usage(max_tokens: int | None, content: str, usage: str) -> None:
    """Rounded half up, as given in 26.3."""
    context = Context(block("m", InMemoryContextProvider(), None, max_tokens))
    result = await context.use("set_context", label="m", content=content)

    assert result == f"Written to m. Usage: {usage}"


async def test_s011_set_context_appends() -> None:
    """On a line of its own."""
    memory = InMemoryContextProvider("fact1")
    context = Context(block("memory", memory, "Facts", 1100))
    result = await context.use("set_context", label="memory", content="\nfact2", action="append")

    assert "Written to memory" in result
    assert memory.content == "fact1\nfact2"


async def test_any_other_action_replaces() -> None:
    """Models invent some."""
    memory = InMemoryContextProvider("old")
    await Context(block("memory", memory)).use(
        "set_context", label="memory", content="new", action="merge"
    )

    assert memory.content == "new"


async def test_s012_a_read_only_block_is_an_error_text() -> None:
    """No exception; blocks outside the choice are handled by their own rules."""
    context = Context(
        block("soul", ReadOnly("identity")), block("memory", InMemoryContextProvider())
    )

    assert await context.use("set_context", label="soul", content="hacked") == (
        'Error: Block "soul" is readonly'
    )


@pytest.mark.parametrize("provider", [ReadOnly("identity"), None])
async def test_s013_s130_s143_s157_no_tools_for_read_only_blocks(provider: ReadOnly | None) -> None:
    """There is nothing to do with them."""
    assert await Context(block("soul", provider)).tools() == {}


async def test_no_tools_without_blocks() -> None:
    """Neither."""
    assert await Context().tools() == {}


async def test_s131_s139_s154_tools_of_a_writable_block() -> None:
    """To write it, and no more."""
    assert [*await Context(block("memory", InMemoryContextProvider())).tools()] == ["set_context"]


async def test_s132_tools_of_a_writable_skill_block() -> None:
    """To write, load and unload."""
    assert [*await Context(block("skills", _skills())).tools()] == [
        "set_context", "load_context", "unload_context",
    ]  # fmt: skip


async def test_s156_tools_of_a_writable_search_block() -> None:
    """To write and search."""
    context = Context(block("knowledge", InMemorySearchProvider()))

    assert [*await context.tools()] == ["set_context", "search_context"]


async def test_s158_a_search_block_that_takes_no_entries() -> None:
    """It is only searched."""
    context = Context(block("knowledge", FindingOnly()), block("skills", LoadingOnly()))

    assert [*await context.tools()] == ["load_context", "unload_context", "search_context"]


async def test_s133_s134_s135_s136_s159_s160_tags_in_the_prompt() -> None:
    """Each kind has one, empty or not; listings are shown."""
    context = Context(
        block("soul", ReadOnly("identity")),
        block("memory", InMemoryContextProvider("x")),
        block("skills", InMemorySkillProvider({"code-review": REVIEW, "sql": ("x", "SQL guide")})),
        block("empty", InMemorySkillProvider()),
        block("knowledge", InMemorySearchProvider({"a": "x"}), "Product docs"),
        block("nothing", InMemorySearchProvider()),
    )
    prompt = await context.prompt.freeze_system_prompt()

    assert [line for line in prompt.splitlines() if line.endswith("]")] == [
        "SOUL [readonly]",
        "MEMORY [writable]",
        "SKILLS [loadable]",
        "EMPTY [loadable]",
        "KNOWLEDGE (Product docs) [searchable]",
        "NOTHING [searchable]",
    ]
    assert "- code-review: Code review\n- sql: SQL guide" in prompt


async def test_s137_load_context_returns_the_document() -> None:
    """To the letter."""
    context = Context(block("skills", _skills()))

    assert await context.use("load_context", label="skills", key="code-review") == REVIEW[0]


async def test_s138_an_unknown_document_is_not_found() -> None:
    """An empty one is."""
    context = Context(block("skills", LoadingOnly()))

    assert await context.use("load_context", label="skills", key="zz") == "Not found: zz"
    assert await context.use("load_context", label="skills", key="one") == ""


async def test_s141_s147_set_context_stores_a_skill() -> None:
    """Under its title, each for itself, and lists it."""
    skills = InMemorySkillProvider()
    context = Context(block("skills", skills))
    for title, content in [("Pirate style", "Talk like a pirate"), ("Second skill", "Two")]:
        result = await context.use(
            "set_context", label="skills", content=content, metadata={"title": title}
        )
        assert result.startswith("Indexed")

    assert await skills.load("pirate-style") == "Talk like a pirate"
    assert await skills.load("second-skill") == "Two"
    listing = (await context.block("skills")).content
    assert all(key in listing for key in ("pirate-style", "second-skill"))


async def test_a_skill_is_described_by_its_description_or_title() -> None:
    """Or by nothing."""
    skills = InMemorySkillProvider()
    context = Context(block("skills", skills))
    for metadata in ({"title": "A", "description": "About a"}, {"title": "B"}, {}, None, "odd"):
        await context.use("set_context", label="skills", content="x", metadata=metadata)

    assert [description for _, description in skills.skills.values()] == ["About a", "B", None]


@pytest.mark.parametrize(
    ("content", "pattern"),
    [
        ("no key", r'Indexed "no-key-[a-z0-9]+" in skills\.'),
        ("Just content, no desc", r'Indexed "just-content-no-desc-[a-z0-9]+" in skills\.'),
        ("用户喜欢咖啡", r'Indexed "entry-[a-z0-9]+" in skills\.'),
    ],
)
async def test_s142_s145_entries_without_title(content: str, pattern: str) -> None:
    """They are named after their content, and come back by that name."""
    skills = InMemorySkillProvider()
    result = await Context(block("skills", skills)).use(
        "set_context", label="skills", content=content, metadata={}
    )

    assert re.fullmatch(pattern, result)
    assert await skills.load(result.split('"')[1]) == content


async def test_s146_long_contents_with_one_beginning() -> None:
    """They are different entries."""
    skills = InMemorySkillProvider()
    context = Context(block("skills", skills))
    start = "The deployment process for production requires approval from "
    for content in (start + "the security team", start + "the management", "用户喜欢咖啡"):
        await context.use("set_context", label="skills", content=content)

    assert len(skills.skills) == 3


async def test_s161_s162_search_context() -> None:
    """It returns what the provider found, or says that there is nothing."""
    context = Context(block("knowledge", InMemorySearchProvider({"meeting-notes": NOTES})))

    found = await context.use("search_context", label="knowledge", query="deployment")
    assert found == f"[meeting-notes]\n{NOTES}"
    assert await context.use("search_context", label="knowledge", query="nonexistent") == (
        "No results found."
    )


async def test_s163_s164_a_written_entry_is_found() -> None:
    """With or without a title."""
    context = Context(block("knowledge", InMemorySearchProvider()))
    result = await context.use("set_context", label="knowledge", content="deployment on Friday")

    assert result.startswith("Indexed")
    assert "Friday" in await context.use("search_context", label="knowledge", query="deployment")


async def test_s173_s176_providers_with_and_without_a_label() -> None:
    """Both are written and searched."""

    class Labelled(InMemorySearchProvider):
        label: str | None = None

        def init(self, label: str) -> None:
            self.label = label

        async def search(self, query: str) -> str | None:
            return f"{self.label}: {await super().search(query)}"

    context = Context(block("docs", Labelled()), block("memory", InMemoryContextProvider()))
    await context.use("set_context", label="docs", content="Hello world")

    assert "set_context" in await context.tools()
    found = await context.use("search_context", label="docs", query="hello")
    assert found.startswith("docs: ")
    assert "Hello world" in found


async def test_searchable_skills_are_written_as_skills() -> None:
    """Tools say so."""

    class Both(InMemorySkillProvider, InMemorySearchProvider):
        def __init__(self) -> None:
            InMemorySkillProvider.__init__(self)
            self.entries = {}

    both = Both()
    context = Context(block("both", both))
    await context.use("set_context", label="both", content="x", metadata={"title": "A"})

    assert both.skills == {"a": ("x", "A")}
    assert '- "both" (skill collection, keyed entries)' in (
        (await context.tools())["set_context"].description
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("set_context", {"label": "nope", "content": "x"}, 'block "nope" not found'),
        ("set_context", {"label": ["memory"], "content": "x"}, "block \"['memory']\" not found"),
        ("set_context", {"content": "x"}, 'block "None" not found'),
        ("set_context", {"label": "memory"}, "content must be a text"),
        (
            "set_context",
            {"label": "memory", "content": "w " * 2000},
            'Block "memory" exceeds maxTokens: 2600 > 1100',
        ),
        ("set_context", {"label": "read", "content": "x"}, 'Block "read" does not support writes'),
        ("set_context", {"label": "find", "content": "x"}, 'Block "find" does not support writes'),
        (
            "load_context",
            {"label": "memory", "key": "k"},
            '"memory" is not a skill block. Skill blocks: read, skills',
        ),
        (
            "unload_context",
            {"label": 5, "key": "k"},
            '"5" is not a skill block. Skill blocks: read, skills',
        ),
        ("load_context", {"label": "skills"}, "key must be a text"),
        (
            "search_context",
            {"label": "skills", "query": "q"},
            '"skills" is not searchable. Searchable blocks: find',
        ),
        ("search_context", {"label": "find", "query": None}, "query must be a text"),
    ],
)
async def test_errors_are_texts(tool: str, arguments: dict[str, object], error: str) -> None:
    """In words that a model can act on."""
    context = Context(
        block("memory", InMemoryContextProvider(), None, 1100),
        block("read", LoadingOnly()),
        block("find", FindingOnly()),
        block("skills", _skills()),
    )

    assert await context.use(tool, **arguments) == f"Error: {error}"


async def test_tools_never_raise(caplog: pytest.LogCaptureFixture) -> None:
    """What a provider raises is told too, and logged."""

    class Broken(InMemoryContextProvider):
        async def set(self, content: str) -> None:
            raise OSError("no space left")

        async def compare_and_set(self, expected: str | None, content: str) -> bool:
            raise AssertionError

    context = Context(block("memory", Broken()))
    tool = (await context.tools())["set_context"]

    assert await context.use("set_context", label="memory", content="x") == "Error: no space left"
    assert await context.use("set_context", label="memory", content="x", action="append") == (
        "Error: AssertionError"
    )
    assert (await tool.execute(None)).startswith("Error: the arguments of set_context")
    assert "set_context failed" in caplog.text


async def test_results_are_short_enough() -> None:
    """F22b: the model reads how long the whole is."""
    skills = InMemorySkillProvider({"long": ("x" * 100_000, None)})
    result = await Context(block("skills", skills)).use("load_context", label="skills", key="long")

    assert len(result) == MAX_RESULT_CHARACTERS
    assert result.endswith("\n[Truncated: the whole text has 100000 characters.]")
    assert capped("x" * MAX_RESULT_CHARACTERS) == "x" * MAX_RESULT_CHARACTERS


async def test_choices_are_fixed_when_the_tools_are_made() -> None:
    """What is added later can be used all the same."""
    context = Context(block("memory", InMemoryContextProvider()))
    tool = (await context.tools())["set_context"]
    await context.blocks.add_context("later", provider=InMemoryContextProvider())

    assert tool.parameters["properties"]["label"]["enum"] == ["memory"]
    assert await tool.execute({"label": "later", "content": "x"}) == (
        "Written to later. Usage: 2 tokens"
    )


async def test_labels_and_descriptions_stay_on_their_line() -> None:
    """The description of a tool is a list of lines."""
    context = Context(block("a\nb", InMemoryContextProvider(), "one\ntwo"))

    assert '- "a b" (writable): one two' in (
        (await context.tools())["set_context"].description.splitlines()
    )


async def test_session_search() -> None:
    """It asks for ten hits and joins them; nothing and failures are told."""
    asked: list[tuple[str, int]] = []

    async def search(query: str, limit: int) -> list[SearchHit]:
        asked.append((query, limit))
        if query == "broken":
            raise ContextBlockError("no index")
        hits = [SearchHit("1", "user", "first"), SearchHit("2", "assistant", "second")]
        return hits if query == "words" else []

    tool = session_search_tool(search)

    assert await tool.execute({"query": "words"}) == "[user] first\n---\n[assistant] second"
    assert await tool.execute({"query": "others"}) == "No results found."
    assert await tool.execute({"query": "broken"}) == "Error: no index"
    assert await tool.execute({}) == "Error: query must be a text"
    assert asked[0] == ("words", 10)
    assert tool.parameters["required"] == ["query"]


async def test_tools_for_models() -> None:
    """In the forms that the two common interfaces take."""

    async def run(arguments: object) -> str:
        return ""

    parameters = {"type": "object", "properties": {}}
    tool = Tool("name", "what it does", parameters, run)

    assert to_openai_tool(tool) == {
        "type": "function",
        "function": {"name": "name", "description": "what it does", "parameters": parameters},
    }
    assert to_anthropic_tool(tool) == {
        "name": "name", "description": "what it does", "input_schema": parameters,
    }  # fmt: skip


async def test_a_tool_that_no_model_could_be_offered_is_refused() -> None:
    """Providers answer such a request with an error, each time; a schema is made whole."""

    async def run(arguments: object) -> str:
        return ""

    for name in ("", "two words", "server.tool", "n" * 65, "名"):
        with pytest.raises(ConfigurationError, match="no name of a tool"):
            Tool(name, "", {"type": "object"}, run)
    schemas: list[dict[str, Json]] = [{}, {"type": "string"}, {"properties": {}}]
    for parameters in schemas:
        with pytest.raises(ConfigurationError, match="of the tool plain"):
            Tool("plain", "", parameters, run)
    offered = to_openai_tool(Tool("plain", "", {"type": "object"}, run))
    assert offered["function"]["parameters"] == {"type": "object", "properties": {}}
