"""Checks of what surrounds a session: blocks, prompts, entries, the registry, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from agent_runtime.errors import IdempotencyConflictError
from agent_runtime.storage.session_protocol import (
    AttemptsRow,
    ContextRow,
    Namespace,
    PromptRow,
    RecordRow,
    SessionRef,
    UsageRow,
)
from agent_runtime.storage.session_registry import session_namespace, shared_namespace
from agent_runtime.testing.session_bench import CHAT, NEIGHBOURS, SessionBench, message
from agent_runtime.testing.storage_bench import (
    OTHER,
    ROOM,
    StorageBench,
    StorageCheck,
    expect,
    expect_error,
)


async def _put(
    bench: StorageBench,
    label: str,
    content: str,
    *,
    expected: int | None = None,
    ref: SessionRef = CHAT,
) -> bool:
    return await bench.storage.write(
        lambda tx: tx.sessions.context.put_context(ref, label, content, expected_version=expected)
    )


async def _add_entry(bench: StorageBench, namespace: Namespace, key: str, content: str) -> None:
    await bench.storage.write(lambda tx: tx.sessions.context.put_entry(namespace, key, content))


async def _create(bench: StorageBench, record: RecordRow) -> RecordRow:
    return await bench.storage.write(lambda tx: tx.sessions.registry.create_record(ROOM, record))


def _entries(ref: SessionRef, label: str = "knowledge") -> Namespace:
    return Namespace(ref.agent, session_namespace(ref.session_id), label)


def _record(id: str, name: str = "Chat", *, at: int = 5) -> RecordRow:
    return RecordRow(id, name, None, None, None, 0, 0, 0.0, None, at, at)


async def blocks_count_their_writes(bench: StorageBench) -> None:
    """Each write of a block raises its version by one; the empty text is a content."""
    reads = bench.storage.sessions
    expect(None, await reads.context(CHAT, "memory"))
    expect(True, await _put(bench, "memory", "a"))
    expect(ContextRow("a", 1), await reads.context(CHAT, "memory"))
    expect(True, await _put(bench, "memory", ""))
    expect(ContextRow("", 2), await reads.context(CHAT, "memory"))
    await _put(bench, "Memory", "other label")
    await _put(bench, "a_b", "я\n" * 10_000)
    expect(["Memory", "a_b", "memory"], sorted(await reads.context_labels(CHAT)))
    expect(ContextRow("я\n" * 10_000, 1), await reads.context(CHAT, "a_b"))


async def blocks_are_written_by_version(bench: StorageBench) -> None:
    """A write that expects another version stores nothing; 0 expects that there is none."""
    reads = bench.storage.sessions
    expect(False, await _put(bench, "memory", "x", expected=1))
    expect(None, await reads.context(CHAT, "memory"))
    expect(True, await _put(bench, "memory", "a", expected=0))
    expect(False, await _put(bench, "memory", "x", expected=0))
    expect(True, await _put(bench, "memory", "b", expected=1))
    expect(False, await _put(bench, "memory", "x", expected=1))
    expect(ContextRow("b", 2), await reads.context(CHAT, "memory"))


async def appends_to_blocks_can_be_repeated(bench: StorageBench) -> None:
    """Of writers that append by version at once, each gets its turn and none is lost."""
    reads = bench.storage.sessions

    async def append(text: str) -> None:
        while True:
            found = await reads.context(CHAT, "memory") or ContextRow("", 0)
            if await _put(bench, "memory", found.content + text, expected=found.version):
                return

    await asyncio.gather(*(append(text) for text in "abcdefgh"))
    found = await reads.context(CHAT, "memory")
    expect((list("abcdefgh"), 8), found and (sorted(found.content), found.version))


async def blocks_belong_to_their_session(bench: StorageBench) -> None:
    """Labels of other sessions and agents are other blocks."""
    for number, ref in enumerate((CHAT, *NEIGHBOURS)):
        await _put(bench, "memory", str(number), ref=ref)
    await bench.reopen()
    for number, ref in enumerate((CHAT, *NEIGHBOURS)):
        expect(ContextRow(str(number), 1), await bench.storage.sessions.context(ref, "memory"))


async def prompts_are_kept(bench: StorageBench) -> None:
    """A session has one prompt; the empty prompt is one too, and differs from none."""
    reads = bench.storage.sessions
    prompts = (PromptRow("═ SOUL", "print"), PromptRow("", None), PromptRow("b", "p2"))
    expect(None, await reads.prompt(CHAT))
    for prompt in prompts:
        await bench.storage.write(
            lambda tx, prompt=prompt: tx.sessions.context.put_prompt(CHAT, prompt)  # type: ignore[misc]
        )
        expect(prompt, await reads.prompt(CHAT))
    for neighbour in NEIGHBOURS:
        expect(None, await reads.prompt(neighbour))


async def entries_are_searched(bench: StorageBench) -> None:
    """An entry is found by all words of its content, best first, and is replaced by key."""
    mine = _entries(CHAT)
    reads = bench.storage.sessions
    expect((0, []), (await reads.count_entries(mine), await reads.search_entries(mine, "a", 5)))
    await _add_entry(bench, mine, "notes", "The deployment is on Friday with budget concerns")
    await _add_entry(bench, mine, "design", "The API uses REST endpoints")
    for query in ("deployment", "budget deployment", '"friday"', "DEPLOYMENTS"):
        found = await reads.search_entries(mine, query, 5)
        expect(["notes"], [key for key, _ in found], query)
    expect([("design", "The API uses REST endpoints")], await reads.search_entries(mine, "rest", 5))
    for query in ("nonexistent", "", "\0", "deployment REST", "*", '"'):
        expect([], await reads.search_entries(mine, query, 5), repr(query))
    await _add_entry(bench, mine, "notes", "about dogs")
    expect([], await reads.search_entries(mine, "deployment", 5))
    expect([("notes", "about dogs")], await reads.search_entries(mine, "dog", 5))
    await _add_entry(bench, mine, "notes", "")
    expect([], await reads.search_entries(mine, "dogs", 5))
    expect(2, await reads.count_entries(mine))
    for number in range(15):
        await _add_entry(bench, mine, f"many{number}", "same words")
    expect(10, len(await reads.search_entries(mine, "same", 10)))


async def entries_belong_to_their_namespace(bench: StorageBench) -> None:
    """The same label in another session, another label and a shared name are apart."""
    shared = Namespace(ROOM, shared_namespace("chat"), "knowledge")
    spaces = [
        *(_entries(ref) for ref in (CHAT, *NEIGHBOURS)),
        _entries(CHAT, "docs"),
        shared,
        replace(shared, agent=OTHER),
    ]
    for number, space in enumerate(spaces):
        await _add_entry(bench, space, "key", f"secret number {number}")
    for number, space in enumerate(spaces):
        found = await bench.storage.sessions.search_entries(space, "secret", 5)
        expect([("key", f"secret number {number}")], found, str(space))
        expect(1, await bench.storage.sessions.count_entries(space))


async def sessions_are_registered(bench: StorageBench) -> None:
    """A record comes back as it was given; an id that is there keeps what it has."""
    reads = bench.storage.sessions
    record = RecordRow("s1", "Chat", "s0", "model", "web", 1, 2, 0.5, None, 7, 8)
    expect(record, await _create(bench, record))
    expect(record, await _create(bench, replace(record, name="Other")))
    expect(record, await reads.record(SessionRef(ROOM, "s1")))
    expect(None, await reads.record(SessionRef(OTHER, "s1")))
    expect(None, await reads.record(SessionRef(ROOM, "S1")))
    expect([], await reads.session_ids(ROOM), "registering writes no session")


async def records_are_listed_by_change(bench: StorageBench) -> None:
    """Listings begin with the last changed record, also within one tick of the clock."""
    reads = bench.storage.sessions
    for number in range(5):
        await _create(bench, _record(f"s{number}"))
    await bench.storage.write(
        lambda tx: tx.sessions.registry.update_record(ROOM, "s1", name="Renamed")
    )
    listed = await reads.records(ROOM, limit=10)
    expect(["s1", "s4", "s3", "s2", "s0"], [row.id for row in listed])
    expect("Renamed", listed[0].name)
    expect(True, listed[0].updated_at > listed[0].created_at, "the change was noted")
    expect(listed[2:4], await reads.records(ROOM, limit=2, offset=2))
    expect([], await reads.records(ROOM, limit=2, offset=9))
    expect([], await reads.records(OTHER, limit=10))


async def usage_adds_up(bench: StorageBench) -> None:
    """Usage is added, what is not given stays, unknown sessions are told and not made."""
    await _create(bench, _record("s1"))

    async def use(session: str) -> bool:
        return await bench.storage.write(
            lambda tx: tx.sessions.registry.update_record(
                ROOM, session, input_tokens=10, output_tokens=3, cost=0.25
            )
        )

    await asyncio.gather(*(use("s1") for _ in range(8)))
    expect(False, await use("nope"))
    await bench.storage.write(
        lambda tx: tx.sessions.registry.update_record(ROOM, "s1", end_reason="done")
    )
    [row] = await bench.storage.sessions.records(ROOM, limit=10)
    used = (row.input_tokens, row.output_tokens, row.estimated_cost)
    expect((80, 24, 2.0, "Chat", "done"), (*used, row.name, row.end_reason))


async def operations_are_recalled(bench: StorageBench) -> None:
    """A result is recalled under its key, for its operation and its agent only."""

    async def recall(key: str, fingerprint: str, agent: object = ROOM) -> str | None:
        ref = ROOM if agent == ROOM else OTHER
        return await bench.storage.write(
            lambda tx: tx.sessions.registry.recall_operation(ref, key, fingerprint)
        )

    expect(None, await recall("k", "fork"))
    await bench.storage.write(
        lambda tx: tx.sessions.registry.record_operation(ROOM, "k", '{"id":"s1"}')
    )
    await bench.reopen()
    expect('{"id":"s1"}', await recall("k", "fork"))
    expect(None, await recall("K", "fork"))
    expect(None, await recall("k", "fork", OTHER))
    await expect_error(IdempotencyConflictError, recall("k", "create"))


async def deleted_sessions_leave_nothing(bench: StorageBench) -> None:
    """Nothing of a deleted session is read any more, and nothing comes back with its id."""
    chat = SessionBench(bench)
    shared = Namespace(ROOM, shared_namespace("chat"), "knowledge")
    for each in (chat, *(chat.of(ref) for ref in NEIGHBOURS)):
        await fill_session(each)
    await _add_entry(bench, shared, "key", "shared words")
    await chat.delete_session()
    await _expect_nothing(chat)
    await chat.append("new")
    await chat.expect_path("new")
    expect(["new"], await chat.found("message"))
    await chat.delete_session()
    await chat.delete_session()
    await _expect_nothing(chat)
    for neighbour in NEIGHBOURS:
        other = chat.of(neighbour)
        expect(["S!", "m2"], await other.visible())
        expect(ContextRow("text", 1), await chat.reads.context(neighbour, "memory"))
        expect(PromptRow("prompt", "print"), await chat.reads.prompt(neighbour))
        expect(1, await chat.reads.count_entries(_entries(neighbour)))
        expect(True, await chat.reads.record(neighbour) is not None)
    expect([("key", "shared words")], await chat.reads.search_entries(shared, "shared", 5))


async def fill_session(chat: SessionBench) -> None:
    """Put something of every kind into a session."""
    ref, bench = chat.ref, chat.bench
    await chat.append("m0", "m1", "m2")
    await chat.append("side", parent="m0")
    await chat.append("m2", "leaf", parent="m1")
    await chat.delete("leaf", "side")
    await chat.append(message("side", "side words"), parent="m0")
    await chat.overlay("S", "m0", "m1")
    await chat.delete("side")
    await _put(bench, "memory", "text", ref=ref)
    await bench.storage.write(
        lambda tx: tx.sessions.context.put_prompt(ref, PromptRow("prompt", "print"))
    )
    await _add_entry(bench, _entries(ref), "key", "entry words")
    await bench.storage.write(
        lambda tx: tx.sessions.registry.create_record(ref.agent, _record(ref.session_id))
    )
    await bench.storage.write(lambda tx: tx.sessions.jobs.put_attempts(ref, AttemptsRow(1, 2.0)))
    usage = UsageRow(f"usage of {ref.session_id}", "summary", "model", 1, 2, 0.5, 5)
    await bench.storage.write(lambda tx: tx.sessions.jobs.add_usage(ref, usage))


async def _expect_nothing(chat: SessionBench) -> None:
    await chat.expect_path()
    reads, ref = chat.reads, chat.ref
    expect([], await chat.found("message"))
    expect([], await reads.overlays(ref))
    expect([], await reads.context_labels(ref))
    expect(None, await reads.context(ref, "memory"))
    expect(None, await reads.prompt(ref))
    expect(0, await reads.count_entries(_entries(ref)))
    expect([], await reads.search_entries(_entries(ref), "entry", 5))
    expect(None, await reads.record(ref))
    expect(AttemptsRow(), await reads.attempts(ref))
    expect([], await reads.usage(ref))
    expect([], await reads.usage_of_days(ref.agent, session_id=ref.session_id, limit=1))
    expect(False, ref.session_id in await reads.session_ids(ref.agent))


CONTEXT_CHECKS: Sequence[StorageCheck] = (
    blocks_count_their_writes,
    blocks_are_written_by_version,
    appends_to_blocks_can_be_repeated,
    blocks_belong_to_their_session,
    prompts_are_kept,
    entries_are_searched,
    entries_belong_to_their_namespace,
    sessions_are_registered,
    records_are_listed_by_change,
    usage_adds_up,
    operations_are_recalled,
    deleted_sessions_leave_nothing,
)
