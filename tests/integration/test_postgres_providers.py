"""Sessions over connections to PostgreSQL of every kind that users bring (21, 25.20)."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime

import asyncpg
import pytest

from agent_runtime.errors import (
    InvalidMessageError,
    SessionSetupError,
    StorageSchemaError,
)
from agent_runtime.identity import agent_ref
from agent_runtime.json_value import Json
from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.message import Message, message_text
from agent_runtime.session.model_messages import ModelMessage, to_model_messages
from agent_runtime.session.postgres_connection import PostgresConnection
from agent_runtime.session.postgres_providers import (
    PostgresContextProvider,
    PostgresSearchProvider,
    PostgresSessionProvider,
)
from agent_runtime.session.postgres_session_store import PostgresSessionStore
from agent_runtime.session.session import Session
from agent_runtime.session.session_store import session_ref
from agent_runtime.storage.postgres import PostgresStorage
from agent_runtime.storage.session_protocol import OverlayRow, SessionWrites
from tests.support.context import ReadOnly
from tests.support.postgres_clients import DriverClient, MinimalConnection
from tests.support.postgres_databases import PostgresDatabases
from tests.support.session import assistant, ids, set_context, shown, use, user


def text(message: Message | None) -> str | None:
    """Return a message's text."""
    return None if message is None else message_text(message)


async def append(provider: PostgresSessionProvider, *message_ids: str) -> None:
    """Append messages one after the other."""
    for message_id in message_ids:
        await provider.append_message(user(message_id))


async def test_s177_to_s179_messages_over_a_connection(
    user_connection: PostgresConnection, owner: str
) -> None:
    """None at first; then by id, and in order."""
    provider = PostgresSessionProvider(user_connection, owner=owner)
    assert await provider.get_history() == []

    await provider.append_message(user("m1", "hello"))
    assert text(await provider.get_message("m1")) == "hello"
    await append(provider, "m2", "m3")

    assert ids(await provider.get_history()) == ["m1", "m2", "m3"]


async def test_s180_an_id_over_a_connection(
    user_connection: PostgresConnection, owner: str
) -> None:
    """It is stored once."""
    provider = PostgresSessionProvider(user_connection, owner=owner)

    await append(provider, "m1", "m1")

    assert ids(await provider.get_history()) == ["m1"]


async def test_s181_s182_parents_over_a_connection(
    user_connection: PostgresConnection, owner: str
) -> None:
    """No parent is a root; an omitted one is the latest message."""
    roots = PostgresSessionProvider(user_connection, "roots", owner=owner)
    await append(roots, "m1", "m2")
    await roots.append_message(user("m3"), None)
    chain = PostgresSessionProvider(user_connection, "chain", owner=owner)
    await append(chain, "m1", "m2", "m3")

    assert await roots.get_branches("m2") == []
    assert ids(await roots.get_history("m3")) == ["m3"]
    assert ids(await chain.get_branches("m2")) == ["m3"]


async def test_s183_to_s187_changes_over_a_connection(
    user_connection: PostgresConnection, owner: str
) -> None:
    """Updating, tip, length, deleting and clearing."""
    provider = PostgresSessionProvider(user_connection, owner=owner)
    await append(provider, "m1", "m2", "m3")

    assert await provider.update_message(user("m1", "updated"))
    assert text(await provider.get_message("m1")) == "updated"
    assert ((await provider.get_latest_leaf() or {})["id"], await provider.get_path_length()) == (
        "m3",
        3,
    )
    await provider.delete_messages(["m1"])
    assert await provider.get_message("m1") is None
    assert text(await provider.get_message("m2")) == "hello"
    await provider.add_compaction("S", "m2", "m3")
    await provider.clear_messages()
    assert (await provider.get_history(), await provider.get_compactions()) == ([], [])


async def test_s188_to_s190_sessions_over_a_connection(
    user_connection: PostgresConnection, owner: str
) -> None:
    """Messages, ids and parents are of one session."""
    one = PostgresSessionProvider(user_connection, "one", owner=owner)
    two = PostgresSessionProvider(user_connection, "two", owner=owner)
    await one.append_message(user("same-id", "session1"))
    await two.append_message(user("same-id", "session2"))
    await two.append_message(user("foreign-parent"))

    await one.append_message(user("child"), "foreign-parent")

    assert [text(each) for each in await one.get_history("same-id")] == ["session1"]
    assert text(await two.get_message("same-id")) == "session2"
    assert ids(await one.get_history()) == ["child"]
    assert await two.get_branches("foreign-parent") == []


async def test_s191_any_range_over_a_connection(
    user_connection: PostgresConnection, owner: str
) -> None:
    """The ids of a summary's ends need not exist."""
    provider = PostgresSessionProvider(user_connection, owner=owner)

    stored = await provider.add_compaction("summary", "m1", "m5")

    assert await provider.get_compactions() == [stored]
    assert (stored.summary, stored.from_message_id, stored.to_message_id) == (
        "summary",
        "m1",
        "m5",
    )


async def test_s192_summaries_of_branches_over_a_connection(
    user_connection: PostgresConnection, owner: str
) -> None:
    """On each path the last one that fits it."""
    provider = PostgresSessionProvider(user_connection, owner=owner)
    await append(provider, "m0", "m1")
    await provider.append_messages([assistant(each) for each in ("a2", "a3", "a4")], "m1")
    await provider.append_messages([assistant(each) for each in ("b2", "b3")], "m1")
    for summary, end in (("A", "a2"), ("B", "b2"), ("A2", "a3")):
        await provider.add_compaction(summary, "m0", end)

    assert shown(await provider.get_history("a4")) == ["A2", "a4"]
    assert shown(await provider.get_history("b3")) == ["B", "b3"]


async def test_s193_times_over_a_connection(
    user_connection: PostgresConnection, owner: str
) -> None:
    """A summary's is told in UTC with milliseconds."""
    store = PostgresSessionStore(user_connection, owner=owner)
    moment = datetime(2026, 5, 18, 15, 42, 29, tzinfo=UTC)
    row = OverlayRow("o1", "S", "m0", "m1", int(moment.timestamp() * 1000))

    async def unit(sessions: SessionWrites) -> Json:
        await sessions.messages.add_overlay(session_ref(store, ""), row, 6)

    await store.write("add_compaction", None, unit)

    [stored] = await PostgresSessionProvider(user_connection, owner=owner).get_compactions()
    assert stored.created_at == "2026-05-18T15:42:29.000Z"


async def test_s194_to_s197_a_block_over_a_connection(
    user_connection: PostgresConnection, owner: str
) -> None:
    """Nothing, then what was set last; labels are apart."""
    memory = PostgresContextProvider(user_connection, "memory", owner=owner)
    todos = PostgresContextProvider(user_connection, "todos", owner=owner)

    assert await memory.get() is None
    await memory.set("hello world")
    assert await memory.get() == "hello world"
    await memory.set("second")
    await todos.set("mine")
    assert (await memory.get(), await todos.get()) == ("second", "mine")


async def test_s198_to_s202_searching_over_a_connection(
    user_connection: PostgresConnection, owner: str
) -> None:
    """Counted, found by words, replaced; what is not found is told; labels are apart."""
    knowledge = PostgresSearchProvider(user_connection, owner=owner)
    other = PostgresSearchProvider(user_connection, owner=owner)
    knowledge.init("knowledge")
    other.init("other")
    assert await knowledge.get() is None

    await knowledge.set("notes", "The deployment is on Friday")
    await other.set("doc", "something else")
    assert (await knowledge.get(), await other.get()) == (
        "1 entries indexed.",
        "1 entries indexed.",
    )
    assert await knowledge.search("Friday deployment") == "[notes]\nThe deployment is on Friday"
    assert await knowledge.search("nonexistent") == "No results found."
    assert await knowledge.search("  ") is None

    await knowledge.set("notes", "replaced text about dogs")
    assert "replaced" in (await knowledge.search("dogs") or "")
    assert await knowledge.search("deployment") == "No results found."
    assert await knowledge.get() == "1 entries indexed."


async def test_entries_are_shared_on_purpose_only(
    user_connection: PostgresConnection, owner: str
) -> None:
    """Another session's block of the label has none (F05), unless both name the same."""
    own = PostgresSearchProvider(user_connection, session_id="a", owner=owner)
    shared = PostgresSearchProvider(user_connection, owner=owner, shared_as="docs")
    for provider in (own, shared):
        provider.init("docs")
        await provider.set("k", "alpha")

    for provider, count in ((own, None), (shared, "1 entries indexed.")):
        elsewhere = provider.for_session("b")
        elsewhere.init("docs")
        assert await elsewhere.get() == count
        assert (await elsewhere.search("alpha") == "No results found.") is (count is None)


def with_blocks(connection: PostgresConnection, owner: str) -> Session:
    """Return a session whose blocks and prompt have providers over the connection."""
    memory = PostgresContextProvider(connection, "memory_s1", owner=owner)
    prompt = PostgresContextProvider(connection, "_system_prompt_s1", owner=owner)
    return (
        Session.create(PostgresSessionProvider(connection, "s1", owner=owner))
        .with_context("soul", provider=ReadOnly("You are helpful."))
        .with_context("memory", description="Learned facts", max_tokens=1100, provider=memory)
        .with_cached_prompt(prompt)
    )


async def test_s203_to_s210_a_prompt_over_a_connection(
    user_connection: PostgresConnection, owner: str
) -> None:
    """It holds the blocks, is stored as it is, and changes at a refresh only."""
    memory = PostgresContextProvider(user_connection, "memory_s1", owner=owner)
    stored = PostgresContextProvider(user_connection, "_system_prompt_s1", owner=owner)
    await memory.set("User likes coffee.")
    session = with_blocks(user_connection, owner)

    prompts = await asyncio.gather(*(session.freeze_system_prompt() for _ in range(3)))
    frozen = prompts[0]

    assert set(prompts) == {frozen} == {await stored.get()}
    for part in ("SOUL", "You are helpful.", "MEMORY", "User likes coffee."):
        assert part in frozen
    await memory.set("User likes tea.")
    assert await session.freeze_system_prompt() == frozen
    refreshed = await session.refresh_system_prompt()
    assert "tea" in refreshed and "coffee" not in refreshed
    assert await with_blocks(user_connection, owner).freeze_system_prompt() == refreshed


async def test_s211_tools_over_a_connection(
    user_connection: PostgresConnection, owner: str
) -> None:
    """A searchable block has both; the model's entries are found again."""
    session = Session.create(PostgresSessionProvider(user_connection, owner=owner)).with_context(
        "knowledge", provider=PostgresSearchProvider(user_connection, owner=owner)
    )

    assert set(await session.tools()) == {"set_context", "search_context"}
    await set_context(session, "knowledge", "beta content", metadata={"title": "doc b"})
    found = await use(session, "search_context", label="knowledge", query="beta")
    assert found == "[doc-b]\nbeta content"
    none = await use(session, "search_context", label="knowledge", query="gamma")
    assert none == "No results found."


def tool_part(number: int, state: str = "output-available") -> dict[str, Json]:
    """Return a part of a call."""
    part: dict[str, Json] = {
        "type": "dynamic-tool",
        "toolName": "set_context",
        "toolCallId": f"call-abc-{number}",
        "state": state,
        "input": {"label": "memory", "content": "likes tea", "metadata": {"title": None}},
    }
    return part | ({"output": "Saved to memory"} if state == "output-available" else {})


def call_message(*parts: dict[str, Json]) -> Message:
    """Return an assistant's message of calls and a text."""
    return {
        "id": "a1",
        "role": "assistant",
        "parts": [*parts, {"type": "text", "text": "Done."}],
        "metadata": {"nested": [1, 2.5, True, "é\u0000"]},
    }


async def test_s212_s213_fields_over_a_connection(
    user_connection: PostgresConnection, owner: str
) -> None:
    """All come back, alone and in the middle of a history."""
    provider = PostgresSessionProvider(user_connection, owner=owner)
    message = call_message(tool_part(123))

    for each in (user("m0"), message, user("m2")):
        await provider.append_message(each)

    assert await provider.get_message("a1") == message
    assert (await provider.get_history())[1] == message


@pytest.mark.parametrize(
    ("parts", "is_ignored", "roles", "calls"),
    [
        ([], False, "user assistant user", 0),
        ([tool_part(1)], False, "user assistant tool user", 1),
        ([tool_part(1, "input-available")], False, "user assistant user", 1),
        ([tool_part(1, "input-available")], True, "user assistant user", 0),
        ([tool_part(1), tool_part(2)], False, "user assistant tool tool user", 2),
    ],
)
async def test_s214_to_s219_models_read_what_a_connection_stored(
    user_connection: PostgresConnection,
    owner: str,
    parts: list[dict[str, Json]],
    is_ignored: bool,
    roles: str,
    calls: int,
) -> None:
    """Stored parts suffice for a provider's messages."""
    provider = PostgresSessionProvider(user_connection, owner=owner)
    for each in (user("m0"), call_message(*parts), user("m2")):
        await provider.append_message(each)

    sent: list[ModelMessage] = to_model_messages(
        await provider.get_history(), ignore_incomplete_tool_calls=is_ignored
    )

    assert [each.role for each in sent] == roles.split()
    assert sum(len(each.tool_calls) for each in sent) == calls


async def test_s220_a_driver_s_client_gets_numbered_placeholders(
    plain_connection: asyncpg.Connection, owner: str
) -> None:
    """None has `?`; whatever has values has `$1`."""
    client = DriverClient(plain_connection)
    provider = PostgresSessionProvider(client, owner=owner)

    await provider.append_message(user("m1", "what?"))
    assert text(await provider.get_message("m1")) == "what?"

    assert {"BEGIN", "COMMIT"} <= {statement for statement, _ in client.seen}
    for statement, values in client.seen:
        numbers = {int(number) for number in re.findall(r"\$(\d+)", statement)}
        assert "?" not in statement
        assert numbers == set(range(1, len(values) + 1))


async def test_s221_a_driver_s_client_serves_blocks(
    plain_connection: asyncpg.Connection, owner: str
) -> None:
    """Values come back; an entry is found."""
    client = DriverClient(plain_connection)
    block = PostgresContextProvider(client, "memory", owner=owner)
    entries = PostgresSearchProvider(client, owner=owner)

    await block.set("kept")
    await entries.set("doc-a", "alpha content")

    assert await block.get() == "kept"
    found = await entries.search("alpha")
    assert found is not None and "doc-a" in found and "alpha content" in found


async def test_a_minimal_connection_gets_marks(
    plain_connection: asyncpg.Connection, owner: str
) -> None:
    """As many as there are values, also where a statement needs one twice."""
    minimal = MinimalConnection(plain_connection)
    provider = PostgresSessionProvider(minimal, owner=owner)
    await append(provider, "m1", "m2")

    await provider.update_message(user("m1", "longer than it was before"))

    assert any(statement.count("?") > 5 for statement, _ in minimal.seen)
    stats = await provider.get_history_row_stats()
    recent = await provider.get_recent_history(None, 10_000)
    assert recent.total_content_bytes == sum(row.bytes for row in stats)


async def test_rows_of_every_read_survive_names(
    plain_connection: asyncpg.Connection, owner: str
) -> None:
    """Where rows come by name, reads are those of another kind of connection."""
    by_name = PostgresSessionProvider(DriverClient(plain_connection), owner=owner)
    by_place = PostgresSessionProvider(plain_connection, owner=owner)
    await append(by_name, "m0", "m1", "m2", "m3")
    await by_name.append_message(user("b2"), "m1")
    await by_name.add_compaction("S", "m1", "m2")
    await by_name.delete_messages(["m0"])

    for leaf in (None, "m3", "b2"):
        assert await by_name.get_history(leaf) == await by_place.get_history(leaf)
        assert await by_name.get_history_row_stats(leaf) == await by_place.get_history_row_stats(
            leaf
        )
    assert shown(await by_name.get_history("m3")) == ["S", "m3"]
    assert await by_name.is_on_path("m1", "b2")
    assert await by_name.search_messages("hello") == await by_place.search_messages("hello")


async def test_it_is_the_storage_s_own_data(
    postgres: PostgresDatabases, plain_connection: asyncpg.Connection, postgres_url: str, owner: str
) -> None:
    """What a connection writes, a session store of the runtime reads, and the other way."""
    provider = PostgresSessionProvider(plain_connection, "s1", owner=owner)
    await append(provider, "m1")
    storage = await PostgresStorage.open(postgres_url)
    session = Session.create(DirectSessionStore(storage, agent_ref("Sessions", owner))).for_session(
        "s1"
    )

    await session.append_message(user("m2"))

    assert ids(await provider.get_history()) == ids(await session.get_history()) == ["m1", "m2"]
    await storage.close()


async def test_a_store_wires_blocks_and_prompt_itself(
    user_connection: PostgresConnection, owner: str
) -> None:
    """`Session.create` over it needs no providers, unlike over a provider."""
    store = PostgresSessionStore(user_connection, owner=owner)
    session = Session.create(store).with_context("memory").with_cached_prompt()

    await session.replace_context_block("memory", "User likes tea.")
    prompt = await session.refresh_system_prompt()

    again = Session.create(store).with_context("memory").with_cached_prompt()
    assert "tea" in prompt == await again.freeze_system_prompt()


async def test_a_database_without_the_tables_is_told(postgres: PostgresDatabases) -> None:
    """With what to do, and the user's transaction goes on."""
    opened = await asyncpg.connect(await postgres.empty())
    try:
        async with opened.transaction():
            with pytest.raises(StorageSchemaError, match="run: agent-runtime db migrate"):
                await PostgresSessionProvider(opened).get_history()
            assert await opened.fetchval("SELECT 1") == 1
    finally:
        await opened.close()


async def test_many_messages_are_stored_at_once(
    user_connection: PostgresConnection, owner: str
) -> None:
    """Each below the one before it, all or none."""
    provider = PostgresSessionProvider(user_connection, owner=owner)
    messages = [user(f"m{number}") for number in range(120)]

    with pytest.raises(InvalidMessageError):
        await provider.append_messages([*messages, {"id": "bad"}])
    assert await provider.get_history() == []
    await provider.append_messages(messages)

    assert await provider.get_history() == messages


def test_what_is_no_connection_is_refused() -> None:
    """By the name of its class, before it is used."""
    with pytest.raises(SessionSetupError, match="str is no connection to PostgreSQL"):
        PostgresSessionProvider("postgresql://localhost")  # type: ignore[arg-type]
