"""A handler that is repeated after a crash does nothing twice to its registry of sessions."""

from __future__ import annotations

from typing import Any

import pytest

from agent_runtime import Agent
from agent_runtime.handlers.invocation import Invocation
from agent_runtime.session.session_export import export_session
from agent_runtime.session.session_import import import_session
from agent_runtime.session.session_manager import SessionManager
from agent_runtime.storage.sqlite import SqliteStorage
from tests.support.repeated_handler import Crash, RepeatedHandler
from tests.support.session_stores import texts, u


class Desk(Agent):
    """Keeps many conversations."""


Run = RepeatedHandler[Desk]


@pytest.fixture
def run(storage: SqliteStorage) -> Run:
    """The desk's handlers."""
    return RepeatedHandler(storage, Desk)


def _manager(desk: Desk) -> SessionManager:
    return SessionManager.create(desk).with_context("memory").with_cached_prompt()


async def _work(desk: Desk) -> list[str]:
    manager = _manager(desk)
    first = await manager.create("First")
    await manager.append(first.id, u("m1"))
    await manager.upsert(first.id, u("m2"))
    await manager.upsert(first.id, u("m2", "second"))
    await manager.append_all(first.id, [u("m3"), u("m4")])
    await manager.delete_messages(first.id, ["m3"])
    await manager.get_session(first.id).replace_context_block("memory", "likes tea")
    await manager.add_compaction(first.id, "Summary", "m1", "m2")
    await manager.add_usage(first.id, 10, 1, 0.5)
    fork = await manager.fork(first.id, "m4", "Fork", copy_context=True)
    new = await manager.compact_and_split(first.id, "All", "New")
    await manager.rename(first.id, "Renamed")
    gone = await manager.create("Gone", operation_key="gone")
    await manager.append(gone.id, u("m1"))
    await manager.delete(gone.id)
    await manager.clear_messages(new.id)
    lines = [line async for line in export_session(desk.session_store, fork.id)]
    await import_session(desk.session_store, lines, session_id="copy")
    return [first.id, fork.id, new.id, gone.id]


async def _seen(desk: Desk) -> dict[str, Any]:
    manager = _manager(desk)
    block = await manager.get_session("copy").get_context_block("memory")
    return {
        "sessions": [
            [
                record.name,
                texts(await manager.get_history(record.id)),
                record.input_tokens,
                record.end_reason,
            ]
            for record in sorted(await manager.list(), key=lambda record: record.name)
        ],
        "memory": block and block.content,
    }


EXPECTED = {
    "sessions": [
        ["Fork", ["Summary", "m4 message"], 0, None],
        ["Fork", ["Summary", "m4 message"], 0, None],
        ["New", [], 0, None],
        ["Renamed", ["Summary", "m4 message"], 10, "compaction"],
    ],
    "memory": "likes tea",
}


@pytest.mark.parametrize("survived", range(1, 19))
async def test_a_repeat_goes_on_where_the_crash_was(run: Run, survived: int) -> None:
    """Whatever write the crash comes after, the repeat leaves what one run leaves."""

    async def crash_after(desk: Desk) -> None:
        writes = 0
        original = Invocation.write_sessions

        async def counting(self: Any, *args: Any) -> Any:
            nonlocal writes
            result = await original(self, *args)
            writes += 1
            if writes == survived:
                raise Crash
            return result

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Invocation, "write_sessions", counting)
            await _work(desk)

    await run.until_crash(crash_after)
    await run(_work)

    assert await run(_seen) == EXPECTED


async def test_a_finished_handler_repeated_names_the_same_sessions(run: Run) -> None:
    """Their ids were made once, within the store's unit of work."""
    first = await run(_work)

    assert await run(_work) == first
    assert await run(_seen) == EXPECTED


@pytest.mark.parametrize("change", ["append", "delete"])
async def test_an_upsert_that_crossed_another_change_survives_a_crash(
    run: Run, change: str
) -> None:
    """The message is what the handler has said, whether others stored or deleted it meanwhile."""

    async def other(desk: Desk) -> None:
        if change == "append":
            await desk.sessions.append("s", u("m1", "theirs"))
        else:
            await desk.sessions.delete_messages("s", ["m1"])

    async def crossed(desk: Desk) -> None:
        original = Invocation.write_sessions

        async def write(self: Any, *args: Any) -> Any:
            patch.undo()
            await run(other, "other")
            await original(self, *args)
            raise Crash

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Invocation, "write_sessions", write)
            await desk.sessions.upsert("s", u("m1", "mine"))

    async def upsert(desk: Desk) -> list[str]:
        await desk.sessions.upsert("s", u("m1", "mine"))
        return texts(await desk.sessions.get_history("s"))

    if change == "delete":
        await run(lambda desk: desk.sessions.append("s", u("m1", "first")), "before")
    await run.until_crash(crossed)

    assert await run(upsert) == ["mine"]
