"""A session over a store of one's own: one that can the least, one that can all (3)."""

from __future__ import annotations

import pytest

from agent_runtime.errors import SessionSetupError
from agent_runtime.json_value import to_json
from agent_runtime.session.context_block import ContextConfig
from agent_runtime.session.message import Message
from agent_runtime.session.session import Session
from agent_runtime.testing.context_providers import InMemorySkillProvider
from tests.support.context import ReadOnly
from tests.support.session import Summaries, append_chain, ids, load_part, shown, user, with_parts
from tests.support.session_providers import CapableMessages, PlainMessages

SKILLS = ContextConfig(
    "skills", provider=InMemorySkillProvider({"pirate": ("Arr.", "Talks like a pirate")})
)


def seeded(provider: PlainMessages) -> PlainMessages:
    """Return a store with a conversation in which a skill was loaded."""
    messages: list[Message] = [
        user("u1"),
        with_parts("a1", load_part("pirate", "Arr.")),
        user("u2"),
    ]
    for message in messages:
        provider.append_message(message)
    return provider


async def unload_description(session: Session) -> str:
    """Return what the model is told of loaded skills."""
    return (await session.tools())["unload_context"].description


@pytest.mark.parametrize("provider", [PlainMessages, CapableMessages])
async def test_s074_all_operations_work_over_it(provider: type[PlainMessages]) -> None:
    """Sync or async."""
    session = Session.create(provider()).on_compaction(Summaries(("m0", "m1", "S")))

    await session.append_message(user("m0"))
    assert ids(await session.get_history()) == ["m0"]
    await append_chain(session, 2, start=1)
    assert await session.update_message(user("m0", "new")) is True
    assert (await session.get_latest_leaf() or {})["id"] == "m2"
    assert ids(await session.get_branches("m0")) == ["m1"]
    assert await session.get_path_length() == 3
    assert await session.compact() is not None
    assert shown(await session.get_history()) == ["S", "m2"]
    await session.delete_messages(["m2"])
    await session.clear_messages()
    assert await session.get_history() == []
    assert await session.get_compactions() == []


async def test_s075_its_context_is_what_was_given() -> None:
    """A read-only block: in the prompt, without tools."""
    session = Session.create(PlainMessages()).with_context("soul", provider=ReadOnly("identity"))

    prompt = await session.freeze_system_prompt()

    assert "SOUL" in prompt and "identity" in prompt
    assert await session.tools() == {}


async def test_s076_a_part_of_a_history_is_read_if_it_can_be() -> None:
    """Else all of it, once."""
    plain, capable = seeded(PlainMessages()), seeded(CapableMessages())

    assert len((await Session(plain).get_recent_history(1024)).messages) == 3
    assert ids((await Session(capable).get_recent_history(1024)).messages) == ["u2"]
    assert plain.reads["full"] == 1
    assert (capable.reads["full"], capable.reads["recent"]) == (0, 1)


async def test_s077_skills_are_restored_from_single_messages() -> None:
    """The sizes tell which ones are the assistant's; the history is not read."""
    provider = seeded(CapableMessages())
    session = Session(provider, context=[SKILLS])

    assert "skills:pirate" in await unload_description(session)
    assert provider.reads == {"stats": 1, "single": 1}
    await session.tools()
    await session.get_path_length()
    assert provider.reads == {"stats": 1, "single": 1}


async def test_s078_skills_are_restored_from_the_history() -> None:
    """Once, if the store tells no sizes."""
    provider = seeded(PlainMessages())
    session = Session(provider, context=[SKILLS])

    assert "skills:pirate" in await unload_description(session)
    await session.tools()
    assert provider.reads["full"] == 1


async def test_s079_skills_are_restored_when_the_first_block_comes() -> None:
    """Not before: without a skill block nothing is scanned."""
    provider = seeded(CapableMessages())
    session = Session(provider)
    await session.get_history()
    assert provider.reads["stats"] == 0

    await session.add_context("skills", provider=SKILLS.provider)

    assert provider.reads["stats"] == 1
    assert "skills:pirate" in await unload_description(session)


async def test_s080_a_budget_that_cannot_be_kept_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once for a session; sizes are counted in bytes (F30)."""
    session = Session(PlainMessages())
    messages = [user("m1", "é" * 10), user("m2")]
    await session.append_messages(messages)

    for _ in range(2):
        recent = await session.get_recent_history(1)
        assert recent.is_truncated is False
        assert ids(recent.messages) == ["m1", "m2"]
        assert recent.total_content_bytes == sum(len(to_json(message)) for message in messages)

    assert caplog.text.count("cannot read a part of a history") == 1


async def test_what_a_store_cannot_do_is_said() -> None:
    """Sizes are None, searching raises (3)."""
    session = Session(PlainMessages())

    assert await session.get_history_row_stats() is None
    with pytest.raises(SessionSetupError, match="Session provider does not support search"):
        await session.search("x")


async def test_s028_what_a_store_can_do_is_used() -> None:
    """A hit's time and session are optional (28)."""
    session = Session(CapableMessages())
    await session.append_message(user("m1", "findme"))

    stats = await session.get_history_row_stats()
    [hit] = await session.search("findme")

    assert stats is not None and [(row.id, row.role) for row in stats] == [("m1", "user")]
    assert (hit.id, hit.created_at, hit.session_id) == ("m1", None, None)


async def test_a_store_that_cannot_be_scanned_leaves_the_session_usable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Tracking is lost, and logged (15.2)."""

    class Broken(PlainMessages):
        def get_history(self, leaf_id: str | None = None) -> list[Message]:
            raise OSError("unreadable")

    session = Session(Broken(), context=[SKILLS])

    assert await session.get_loaded_skill_keys() == set()
    await session.append_message(user("m0"))
    assert "the loaded skills cannot be restored" in caplog.text
