"""Which skills are loaded: tracking, finding out after a restart, and taking texts out again."""

from __future__ import annotations

import pytest

from agent_runtime.session.message import Message
from agent_runtime.session.skills import LoadedSkills
from agent_runtime.session.tools import session_tools
from agent_runtime.testing.context_providers import InMemoryContextProvider, InMemorySkillProvider
from tests.support.context import (
    Context,
    PlainStore,
    ReadOnly,
    SizedStore,
    assistant,
    block,
    call,
    user,
)

TEXT = "Talk like a pirate."
MARKER = "[skill unloaded: pirate]"
PIRATE = {"skills:pirate"}


def _skills() -> InMemorySkillProvider:
    return InMemorySkillProvider({"pirate": (TEXT, None), "tax": ("Pay.", None)})


def _history() -> list[Message]:
    return [user("u1"), assistant("a1", call("load_context", "pirate", TEXT)), user("u2")]


def _context(*messages: Message, store: PlainStore | None = None) -> Context:
    return Context(
        block("skills", _skills()), store=SizedStore(messages) if store is None else store
    )


async def _load(context: Context, key: str = "pirate") -> str:
    return await context.use("load_context", label="skills", key=key)


async def _unload(context: Context, key: str = "pirate") -> str:
    return await context.use("unload_context", label="skills", key=key)


def _outputs(context: Context) -> list[object]:
    return [
        part["output"]
        for message in context.store.messages
        for part in message["parts"]
        if "output" in part
    ]


async def test_s077_restoring_reads_sizes_and_assistant_messages() -> None:
    """Never the whole conversation."""
    context = _context(*_history())
    tools = await context.tools()

    assert "skills:pirate" in tools["unload_context"].description
    assert context.store.reads == {"history": 0, "stats": 1, "single": 1}


async def test_s078_restoring_without_sizes_reads_once() -> None:
    """The visible conversation, if the store has nothing better."""
    context = _context(store=PlainStore(_history()))
    tools = await context.tools()

    assert "skills:pirate" in tools["unload_context"].description
    assert context.store.reads["history"] == 1


async def test_s079_a_skill_block_that_is_added_later() -> None:
    """Nothing is read before there is one."""
    context = Context(block("memory", InMemoryContextProvider()), store=SizedStore(_history()))
    await context.skills.restore()
    assert context.store.reads["stats"] == 0

    await context.blocks.add_context("skills", provider=_skills())
    tools = await context.tools()
    assert "skills:pirate" in tools["unload_context"].description
    assert context.store.reads["stats"] == 1


async def test_restoring_happens_once() -> None:
    """Later calls cost nothing."""
    context = _context(*_history())
    for _ in range(3):
        await context.skills.restore()

    assert context.store.reads["stats"] == 1


async def test_what_was_loaded_before_restoring_stays() -> None:
    """Beside what the conversation tells."""
    context = _context(*_history())
    context.skills.mark_loaded("skills", "tax")
    await context.skills.restore()

    assert context.skills.get_loaded_skill_keys() == {"skills:pirate", "skills:tax"}


async def test_restoring_follows_the_order_of_calls() -> None:
    """Loaded, unloaded by a call or by a marker, loaded again; in each way of naming the tool."""
    context = _context(
        assistant("a1", call("load_context", "one", "x"), call("load_context", "two", "x")),
        assistant("a2", call("unload_context", "one", 'Unloaded "one" from skills.')),
        assistant("a3", call("load_context", "two", "[skill unloaded: two]")),
        assistant("a4", call("load_context", "three", "x", type="tool-load_context")),
        assistant("a5", call("load_context", "one", "y")),
    )
    await context.skills.restore()

    assert context.skills.get_loaded_skill_keys() == {"skills:one", "skills:three"}


async def test_r17_failed_loads_are_not_loaded() -> None:
    """Neither unknown keys nor errors."""
    context = _context(
        assistant("a1", call("load_context", "zz", "Not found: zz")),
        assistant("a2", call("load_context", "yy", "Error: no answer")),
        assistant("a3", call("load_context", "xx", "Not found: another")),
    )
    await context.skills.restore()

    assert context.skills.get_loaded_skill_keys() == {"skills:xx"}


async def test_an_unload_that_failed_is_no_unload() -> None:
    """The text is still in the conversation."""
    context = _context(
        *_history(), assistant("a2", call("unload_context", "pirate", "Error: database locked"))
    )
    await context.skills.restore()

    assert context.skills.get_loaded_skill_keys() == PIRATE


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "load_context"},
        call("load_context", "pirate", TEXT) | {"state": "input-available"},
        call("load_context", "pirate", TEXT) | {"input": None},
        call("load_context", "pirate", TEXT) | {"input": {"label": "skills"}},
        call("load_context", "pirate", TEXT) | {"input": {"label": 1, "key": "pirate"}},
        call("search_context", "pirate", TEXT),
        call("load_context", "pirate", TEXT, type="tool-other"),
    ],
)
async def test_other_parts_tell_nothing(part: dict[str, object]) -> None:
    """Whatever they look like."""
    context = _context(assistant("a1", part))
    await context.skills.restore()

    assert context.skills.get_loaded_skill_keys() == set()


async def test_only_the_assistant_loads() -> None:
    """A user's message cannot claim it."""
    context = _context({"id": "u", "role": "user", "parts": [call("load_context", "pirate", TEXT)]})
    await context.skills.restore()

    assert context.skills.get_loaded_skill_keys() == set()


async def test_a_conversation_that_cannot_be_read_has_no_skills(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The session is usable; the log says why."""
    context = _context(*_history())
    context.store.error = OSError("no answer")

    assert "unload_context" in await context.tools()
    assert context.skills.get_loaded_skill_keys() == set()
    assert "no answer" in caplog.text


async def test_s148_loading_is_tracked() -> None:
    """A failed load is not."""
    context = _context()
    await _load(context, "unknown")
    assert context.skills.get_loaded_skill_keys() == set()

    await _load(context)
    assert context.skills.get_loaded_skill_keys() == PIRATE


async def test_the_set_is_the_callers_own() -> None:
    """Changing it changes nothing here."""
    context = _context()
    await _load(context)
    context.skills.get_loaded_skill_keys().clear()

    assert context.skills.get_loaded_skill_keys() == PIRATE


async def test_s149_unloading_is_tracked() -> None:
    """The model is told."""
    context = _context()
    await _load(context)

    assert await _unload(context) == 'Unloaded "pirate" from skills. Context reclaimed.'
    assert context.skills.get_loaded_skill_keys() == set()


async def test_s150_unloading_what_is_not_loaded() -> None:
    """The model is told."""
    assert await _unload(_context()) == 'Skill "pirate" is not currently loaded in "skills".'
    assert await _context().skills.unload_skill("skills", "pirate") is False


async def test_s151_unloading_is_asked_for_once() -> None:
    """With the label and the key."""
    asked = []

    class Asked(LoadedSkills):
        async def unload_skill(self, label: str, key: str) -> bool:
            asked.append((label, key))
            return await super().unload_skill(label, key)

    context = _context()
    skills = Asked(context.store, context.blocks)
    tools = await session_tools(context.blocks, skills)
    for tool in ("load_context", "unload_context"):
        await tools[tool].execute({"label": "skills", "key": "pirate"})

    assert asked == [("skills", "pirate")]


async def test_s152_an_unloaded_skill_can_be_loaded_again() -> None:
    """It is tracked again."""
    context = _context()
    await _load(context)
    await _unload(context)

    assert await _load(context) == TEXT
    assert context.skills.get_loaded_skill_keys() == PIRATE


async def test_s153_clearing_drops_all() -> None:
    """As when the conversation is cleared."""
    context = _context()
    await _load(context)
    await _load(context, "tax")
    context.skills.clear()

    assert context.skills.get_loaded_skill_keys() == set()


async def test_s155_the_tool_names_what_is_loaded() -> None:
    """In the order of loading, or says that there is nothing."""
    context = _context()
    assert "none is loaded" in (await context.tools())["unload_context"].description

    await _load(context, "tax")
    await _load(context)
    assert "skills:tax, skills:pirate" in (await context.tools())["unload_context"].description


async def test_removing_a_block_drops_its_skills_only() -> None:
    """Nothing in the conversation is changed."""
    context = _context(*_history(), assistant("a2", call("load_context", "x", "X", label="more")))
    await context.skills.restore()
    context.skills.forget_block("skills")

    assert context.skills.get_loaded_skill_keys() == {"more:x"}
    assert _outputs(context) == [TEXT, "X"]


async def test_labels_and_keys_with_colons_are_kept_apart() -> None:
    """`a:b` with key `c` is another skill than `a` with key `b:c`."""
    context = _context()
    context.skills.mark_loaded("a:b", "c")

    assert await context.skills.unload_skill("a", "b:c") is False
    assert await context.skills.unload_skill("a:b", "c") is True


async def test_unloading_rewrites_the_conversation() -> None:
    """The other parts and keys of the message stay."""
    context = _context(
        assistant("a1", {"type": "text", "text": "Aye"}, call("load_context", "pirate", TEXT))
        | {"metadata": {"x": 1}}
    )
    await context.skills.restore()
    await _unload(context)

    assert context.store.messages == [
        assistant("a1", {"type": "text", "text": "Aye"}, call("load_context", "pirate", MARKER))
        | {"metadata": {"x": 1}}
    ]


async def test_r18_all_copies_are_gone_when_the_tool_returns() -> None:
    """Under a summary too, and after a restart it is not loaded."""
    context = _context(
        assistant("a1", call("load_context", "pirate", TEXT)),
        assistant("a2", call("load_context", "tax", "Pay.")),
        assistant(
            "a3", call("load_context", "pirate", TEXT), call("load_context", "pirate", "other")
        ),
    )
    context.store.hidden = {"a1"}
    await context.skills.restore()
    await _unload(context)

    assert _outputs(context) == [MARKER, "Pay.", MARKER, MARKER]
    again = _context(*context.store.messages)
    await again.skills.restore()
    assert again.skills.get_loaded_skill_keys() == {"skills:tax"}


async def test_unloading_without_sizes_rewrites_what_is_visible() -> None:
    """A store that tells nothing more cannot be asked for more."""
    context = _context(store=PlainStore(_history()))
    await context.skills.restore()
    await _unload(context)

    assert _outputs(context) == [MARKER]


async def test_messages_are_saved_in_the_way_given() -> None:
    """A session tells its observers so."""
    saved = []

    async def save(message: Message) -> None:
        saved.append(message["id"])

    context = _context(*_history())
    skills = LoadedSkills(context.store, context.blocks, save)
    await skills.restore()
    await skills.unload_skill("skills", "pirate")

    assert saved == ["a1"]


async def test_a_failed_unload_can_be_repeated() -> None:
    """The skill stays loaded, as its text stays in the conversation."""
    context = _context(*_history())
    await context.skills.restore()
    context.store.error = OSError("no answer")
    assert await _unload(context) == "Error: no answer"
    assert context.skills.get_loaded_skill_keys() == PIRATE

    context.store.error = None
    await _unload(context)
    assert _outputs(context) == [MARKER]


async def test_r18_a_load_that_is_not_stored_yet() -> None:
    """It gets the marker when its message is stored."""
    context = _context()
    await _load(context)
    await _unload(context)
    await context.append(assistant("a1", call("load_context", "pirate", TEXT)))

    assert _outputs(context) == [MARKER]


async def test_loaded_again_before_anything_is_stored() -> None:
    """Only the text that was unloaded is replaced."""
    context = _context()
    await _load(context)
    await _unload(context)
    await _load(context)
    await context.append(assistant("a1", *[call("load_context", "pirate", TEXT) for _ in range(2)]))

    assert _outputs(context) == [MARKER, TEXT]
    await _unload(context)
    assert _outputs(context) == [MARKER, MARKER]


async def test_loaded_again_in_messages_that_are_stored_together() -> None:
    """The earlier of them holds what was unloaded."""
    context = _context()
    await _load(context)
    await _unload(context)
    await _load(context)
    messages = [
        assistant("a1", call("load_context", "pirate", TEXT)),
        user("u1"),
        assistant("a2", call("load_context", "pirate", TEXT)),
    ]
    context.store.messages += context.skills.all_with_markers(messages)

    assert _outputs(context) == [MARKER, TEXT]


async def test_a_turn_that_was_given_up_marks_nothing_later() -> None:
    """The load of the next turn is the one that is stored."""
    context = _context()
    await _load(context)
    await _unload(context)
    await _load(context)
    await context.append(assistant("a1", call("load_context", "pirate", TEXT)))

    assert _outputs(context) == [TEXT]


async def test_a_write_that_failed_can_be_repeated() -> None:
    """The marker is applied again."""
    context = _context()
    await _load(context)
    await _unload(context)
    message = assistant("a1", call("load_context", "pirate", TEXT))
    once = context.skills.with_markers(message)

    assert context.skills.with_markers(message) == once
    assert once["parts"][0]["output"] == MARKER
    assert message["parts"][0]["output"] == TEXT


async def test_after_it_was_stored_nothing_waits() -> None:
    """A copy that comes from elsewhere is stored as it is."""
    context = _context()
    await _load(context)
    await _unload(context)
    await context.append(assistant("a1", call("load_context", "pirate", TEXT)))
    await context.append(assistant("a2", call("load_context", "pirate", TEXT)))

    assert _outputs(context) == [MARKER, TEXT]


async def test_other_messages_are_stored_as_they_are() -> None:
    """The very same object."""
    context = _context()
    await _load(context)
    await _unload(context)

    for message in (user("u1"), assistant("a1", call("load_context", "tax", "Pay."))):
        assert context.skills.with_markers(message) is message


async def test_no_skill_block_no_reading() -> None:
    """Read-only blocks cost nothing at the start."""
    context = Context(block("soul", ReadOnly("x")), store=SizedStore(_history()))
    await context.tools()

    assert context.store.reads == {"history": 0, "stats": 0, "single": 0}
