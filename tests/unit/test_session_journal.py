"""A handler that is repeated after a crash does nothing twice to its conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agent_runtime import Agent
from agent_runtime.compaction.compact_context import CompactContext, CompactResult
from agent_runtime.errors import HandlerDivergedError
from agent_runtime.json_value import Json, from_json
from agent_runtime.session.message import text_message
from agent_runtime.session.session import Session
from agent_runtime.session.session_events import SessionEvent
from agent_runtime.storage.protocol import ConnectionRow
from agent_runtime.storage.sqlite import SqliteStorage
from agent_runtime.testing.context_providers import InMemorySkillProvider
from tests.support.repeated_handler import Crash, RepeatedHandler
from tests.support.session import load_part, with_parts


class Diary(Agent):
    """Keeps a memory and a frozen prompt."""

    def configure_session(self, session: Session) -> Session:
        """Set both up."""
        return session.with_context("memory", max_tokens=50).with_cached_prompt()


Run = RepeatedHandler[Diary]


@pytest.fixture
def run(storage: SqliteStorage) -> Run:
    """The diary's handlers."""
    return RepeatedHandler(storage, Diary)


async def _write_all(diary: Diary) -> list[Any]:
    session = diary.session
    return [
        await session.freeze_system_prompt(),
        await session.append_message(text_message("user", "one", id="m1")),
        (await session.append_context_block("memory", "likes tea")).content,
        (
            await (await session.tools())["set_context"].execute(
                {"label": "memory", "content": "no milk", "action": "append"}
            )
        ),
        await session.update_message(text_message("user", "uno", id="m1")),
        await session.append_messages(
            [text_message("user", "two", id="m2"), text_message("user", "three", id="m3")]
        ),
        await _delete(session, "m2"),
        await session.append_message(text_message("user", "two again", id="m2")),
    ]


async def _delete(session: Session, message_id: str) -> str:
    await session.delete_messages([message_id])
    return message_id


async def _contents(diary: Diary) -> tuple[list[Any], str]:
    block = await diary.session.get_context_block("memory")
    return [
        each["id"] for each in await diary.session.get_history()
    ], block.content if block else ""


@pytest.mark.parametrize("survived", range(1, 9))
async def test_a_repeat_goes_on_where_the_crash_was(run: Run, survived: int) -> None:
    """Whatever effect the crash comes after, the repeat leaves what one run leaves."""

    async def crash_after(diary: Diary) -> None:
        effects = 0
        original = diary.session_store.__class__.once

        async def counting(self: Any, *args: Any) -> Any:
            nonlocal effects
            result = await original(self, *args)
            effects += 1
            if effects == survived:
                raise Crash
            return result

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(diary.session_store.__class__, "once", counting)
            await _write_all(diary)

    await run.until_crash(crash_after)
    await run(_write_all)

    ids, memory = await run(_contents)
    assert ids == ["m1", "m3", "m2"]
    assert memory == "likes tea\nno milk"


async def test_a_finished_handler_repeated_returns_what_it_returned(run: Run) -> None:
    """Every operation's result is the same the second time."""
    first = await run(_write_all)
    again = await run(_write_all)

    assert isinstance(first, list)
    assert isinstance(again, list)
    # What a block holds is read anew, and says what is there now.
    assert again[0] == first[0]
    assert again[1] == first[1]
    assert again[4:] == first[4:]


async def test_a_repeat_that_asks_for_another_message_is_refused(run: Run) -> None:
    """Two different runs are never mixed."""
    await run(lambda diary: diary.session.append_message(text_message("user", "a", id="m1")))

    with pytest.raises(HandlerDivergedError, match="append_message with another payload"):
        await run(lambda diary: diary.session.append_message(text_message("user", "b", id="m1")))


async def test_a_memory_near_its_limit_is_not_refused_when_repeated(run: Run) -> None:
    """An append that filled the block is recalled, not measured again."""

    async def fill(diary: Diary) -> str:
        return (await diary.session.append_context_block("memory", "w " * 30)).content

    assert await run(fill) == "w " * 30
    assert await run(fill) == "w " * 30


async def _append_with_an_observer(diary: Diary) -> list[Any]:
    """Do lasting things in an observer, in a compaction function, and after them."""
    session = diary.get_session("watched")

    async def note(event: SessionEvent) -> None:
        await diary.update_state(lambda state: (state or 0) + 1)

    async def compact(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult | None:
        summary = await diary.step("summarize", lambda: _text("in short"))
        return CompactResult(messages[0]["id"], messages[-1]["id"], summary)

    session.on_change(note).on_compaction(compact).compact_after(40, mode="inline")
    return [
        await session.append_message(text_message("user", "x" * 80, id="m1")),
        await session.append_message(text_message("user", "x" * 80, id="m2")),
        await diary.step("answer", lambda: _text("done")),
        await diary.set_state(7),
    ]


async def _text(text: str) -> str:
    return text


async def test_a_repeat_is_not_misled_by_what_observers_did(run: Run) -> None:
    """What an observer or compaction function does is no effect of the handler's own order."""

    async def crash(diary: Diary) -> None:
        await _append_with_an_observer(diary)
        raise Crash

    await run.until_crash(crash)
    first, second, answer, receipt = await run(_append_with_an_observer)

    assert first.is_inserted
    assert second.is_inserted
    assert answer == "done"
    assert receipt.duplicate


async def test_a_repeat_ends_the_compaction_that_clients_saw_begin(
    run: Run, storage: SqliteStorage
) -> None:
    """They are told anew, as the repeat does not compact for an append that is stored."""

    async def handle(diary: Diary) -> None:
        session = diary.get_session("watched")

        async def compact(
            messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
        ) -> CompactResult | None:
            session._events.broadcast = None  # a killed process says no more
            raise Crash

        session.on_compaction(compact).compact_after(10, mode="inline")
        await session.append_message(text_message("user", "x" * 80, id="m1"))

    await run(_contents)
    head = await storage.read_state(run.ref)
    assert head is not None
    connection = ConnectionRow("s", head.agent_id, "c", "g", "/", "[]", False, True, 0)
    await storage.write(lambda tx: tx.put_connection(connection))

    with pytest.raises(Crash):
        await run(handle)
    await run(handle)

    rows = await storage.read_feed(0, 10)
    told = [from_json(from_json(row.payload or "")["text"]) for row in rows]
    assert [frame["phase"] for frame in told] == ["idle", "compacting", "idle"]


async def test_a_repeat_recalls_a_summary_whose_messages_have_gone_since(run: Run) -> None:
    """What the handler deleted afterwards does not make its own summary look wrong."""

    async def summarize(diary: Diary) -> Any:
        session = diary.session
        await session.append_messages(
            [text_message("user", "one", id="m1"), text_message("user", "two", id="m2")]
        )
        stored = await session.add_compaction("in short", "m1", "m2")
        await session.delete_messages(["m1"])
        return stored

    assert await run(summarize) == await run(summarize)


async def test_a_repeat_recalls_that_a_skill_was_unloaded(run: Run) -> None:
    """It is not loaded any more then, and what observers did took no position of the handler's."""

    async def unload(diary: Diary) -> list[Any]:
        session = diary.get_session("skilled")
        skills = InMemorySkillProvider({"pirate": ("Talk like a pirate.", None)})
        await session.add_context("skills", provider=skills)

        async def note(event: SessionEvent) -> None:
            await diary.step("seen", lambda: _text("x"))

        session.on_change(note)
        shown = load_part("pirate", "Talk like a pirate.")
        await session.append_message(with_parts("m1", shown))
        was_loaded = await session.unload_skill("skills", "pirate")
        again = await session.append_message(with_parts("m2", shown))
        return [was_loaded, again, await session.get_loaded_skill_keys()]

    first = await run(unload)

    assert first[0] and first[2] == {"skills:pirate"}
    assert await run(unload) == first
