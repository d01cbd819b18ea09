"""Skills of a session over its own storage: loading, restarting, unloading (15)."""

from __future__ import annotations

import pytest

from agent_runtime.errors import ContextBlockError
from agent_runtime.json_value import Json
from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.session import Session
from agent_runtime.session.session_events import MessageUpdated
from agent_runtime.session.stored_session import StoredSessionProvider
from agent_runtime.testing.context_providers import InMemorySkillProvider
from tests.support.session import Events, ids, load_part, set_context, use, user, with_parts

MARKER = "[skill unloaded: pirate]"


def opened(store: DirectSessionStore) -> Session:
    """Return a session with two skills, as after a restart."""
    skills = InMemorySkillProvider({"pirate": ("Arr.", "Pirate"), "tax": ("Pay.", "Tax")})
    return Session.create(store).with_context("skills", provider=skills)


async def load(session: Session, id: str, key: str = "pirate") -> str:
    """Let the model load a skill, and store its message."""
    output = await use(session, "load_context", label="skills", key=key)
    await session.append_message(with_parts(id, load_part(key, output)))
    return output


async def outputs(session: Session, *ids: str) -> list[Json]:
    """Return what the first part of stored messages holds."""
    found = [await session.get_message(id) for id in ids]
    return [message["parts"][0]["output"] for message in found if message is not None]


async def test_s148_s149_s155_a_loaded_skill_is_tracked(
    session_store: DirectSessionStore,
) -> None:
    """Told to the model, until it is unloaded."""
    session = opened(session_store)
    assert await session.get_loaded_skill_keys() == set()

    assert await load(session, "a1") == "Arr."
    assert await session.get_loaded_skill_keys() == {"skills:pirate"}
    assert "skills:pirate" in (await session.tools())["unload_context"].description

    assert "Unloaded" in await use(session, "unload_context", label="skills", key="pirate")
    assert await session.get_loaded_skill_keys() == set()


async def test_s150_s152_unloading_and_loading_again(session_store: DirectSessionStore) -> None:
    """What is not loaded says so; what was unloaded can be loaded again."""
    session = opened(session_store)
    answer = await use(session, "unload_context", label="skills", key="pirate")
    assert "not currently loaded" in answer
    await load(session, "a1")
    assert await session.unload_skill("skills", "pirate") is True
    assert await session.unload_skill("skills", "pirate") is False

    assert await load(session, "a2") == "Arr."
    assert await session.get_loaded_skill_keys() == {"skills:pirate"}
    assert await outputs(session, "a1", "a2") == [MARKER, "Arr."]


async def test_a_restart_finds_what_is_loaded(session_store: DirectSessionStore) -> None:
    """On the active path, also under a summary; what was unloaded is not loaded (15.2)."""
    session = opened(session_store)
    await load(session, "a1", "pirate")
    await load(session, "a2", "tax")
    await session.append_message(user("u3"))
    await session.add_compaction("S", "a1", "a2")
    assert await opened(session_store).get_loaded_skill_keys() == {"skills:pirate", "skills:tax"}

    await session.unload_skill("skills", "pirate")

    assert await opened(session_store).get_loaded_skill_keys() == {"skills:tax"}


async def test_a_restart_looks_at_the_active_path(session_store: DirectSessionStore) -> None:
    """A skill of another branch is not loaded."""
    session = opened(session_store)
    await session.append_message(user("u1"))
    await load(session, "a1")
    await session.append_message(with_parts("other"), "u1")

    assert await opened(session_store).get_loaded_skill_keys() == set()


@pytest.mark.parametrize(
    "output", ["Not found: zz", "Error: disk full", "[skill unloaded: zz]", "[skill unloaded: x]"]
)
async def test_r17_a_failed_load_is_no_load(session_store: DirectSessionStore, output: str) -> None:
    """Neither is one that was unloaded (F15)."""
    await Session.create(session_store).append_message(with_parts("a1", load_part("zz", output)))

    assert await opened(session_store).get_loaded_skill_keys() == set()


async def test_f31_a_tool_s_name_may_be_in_its_part_s_type(
    session_store: DirectSessionStore,
) -> None:
    """Or beside it."""
    named: dict[str, Json] = {**load_part("tax", "Pay."), "type": "dynamic-tool"}
    session = Session.create(session_store)
    await session.append_message(
        with_parts("a1", load_part("pirate", "Arr."), {**named, "toolName": "load_context"})
    )

    assert await opened(session_store).get_loaded_skill_keys() == {"skills:pirate", "skills:tax"}


async def test_r18_unloading_takes_every_text_out(session_store: DirectSessionStore) -> None:
    """When the tool answers, both texts have gone, the one under a summary too (F15c)."""
    session = opened(session_store)
    await session.append_message(user("u0"))
    await load(session, "a1")
    await session.append_message(user("u1"))
    await load(session, "a2")
    await session.append_message(user("u2"))
    await session.add_compaction("S", "u0", "u1")
    assert ids(await session.get_history()) == ["S", "a2", "u2"]

    answer = await use(session, "unload_context", label="skills", key="pirate")

    assert answer == 'Unloaded "pirate" from skills. Context reclaimed.'
    assert await outputs(session, "a1", "a2") == [MARKER, MARKER]
    assert await opened(session_store).get_loaded_skill_keys() == set()
    assert ids(await session.get_history()) == ["S", "a2", "u2"]


async def test_r18_a_message_that_is_stored_later_gets_the_marker(
    session_store: DirectSessionStore,
) -> None:
    """Loaded and unloaded within one turn (F15c)."""
    session = opened(session_store)
    text = await use(session, "load_context", label="skills", key="pirate")
    await use(session, "unload_context", label="skills", key="pirate")

    await session.append_message(with_parts("a1", load_part("pirate", text)))

    assert await outputs(session, "a1") == [MARKER]
    assert await opened(session_store).get_loaded_skill_keys() == set()


async def test_a_turn_that_is_updated_gets_the_marker_too(
    session_store: DirectSessionStore,
) -> None:
    """Its message was stored before the call was finished, and sent again by mistake."""
    session = opened(session_store)
    pending = {**load_part("pirate", ""), "state": "input-available"}
    del pending["output"]
    await session.append_message(with_parts("a1", pending))
    text = await use(session, "load_context", label="skills", key="pirate")
    await use(session, "unload_context", label="skills", key="pirate")
    finished = with_parts("a1", load_part("pirate", text))
    session.on_change(events := Events())

    await session.append_message(finished)
    await session.update_message(finished)

    assert await outputs(session, "a1") == [MARKER]
    assert events.seen[-1] == MessageUpdated(with_parts("a1", load_part("pirate", MARKER)))


async def test_clearing_and_removing_forget_skills(session_store: DirectSessionStore) -> None:
    """The history is left as it is by a removal (11.5)."""
    session = opened(session_store)
    await load(session, "a1")
    assert await session.remove_context("skills") is True
    assert await session.get_loaded_skill_keys() == set()
    assert await outputs(session, "a1") == ["Arr."]
    assert await session.tools() == {}

    session = opened(session_store)
    assert await session.get_loaded_skill_keys() == {"skills:pirate"}
    await session.clear_messages()
    assert await session.get_loaded_skill_keys() == set()


async def test_the_answered_set_is_the_caller_s(session_store: DirectSessionStore) -> None:
    """Changing it changes nothing."""
    session = opened(session_store)
    (await session.get_loaded_skill_keys()).add("skills:tax")

    assert await session.get_loaded_skill_keys() == set()


async def test_skills_over_a_provider_are_the_same(session_store: DirectSessionStore) -> None:
    """The direct constructor restores, unloads and marks as the chain does (F15b)."""
    provider = StoredSessionProvider(session_store)
    session = Session(provider).with_context(
        "skills", provider=InMemorySkillProvider({"pirate": ("Arr.", None)})
    )
    await load(session, "a1")
    await session.append_message(user("u1"))
    await session.add_compaction("S", "a1", "u1")

    assert await opened(session_store).get_loaded_skill_keys() == {"skills:pirate"}
    assert await session.unload_skill("skills", "pirate") is True
    assert await outputs(session, "a1") == [MARKER]


async def test_s141_s144_a_skill_is_written_and_listed(session_store: DirectSessionStore) -> None:
    """Under its title's key, and loaded by that."""
    session = opened(session_store)

    answer = await set_context(
        session, "skills", "Talk like a pirate", metadata={"title": "Pirate style"}
    )

    assert answer == 'Indexed "pirate-style" in skills.'
    assert await use(session, "load_context", label="skills", key="pirate-style") == (
        "Talk like a pirate"
    )
    block = await session.get_context_block("skills")
    assert block is not None and "- pirate-style: Pirate style" in block.content
    with pytest.raises(ContextBlockError, match="keyed provider"):
        await session.append_context_block("skills", "x")
