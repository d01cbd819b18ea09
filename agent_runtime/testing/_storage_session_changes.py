"""Checks of updating, deleting and clearing messages."""

from __future__ import annotations

from collections.abc import Sequence

from agent_runtime.storage.protocol import Transaction
from agent_runtime.storage.session_protocol import NewMessage, SizeRow
from agent_runtime.testing.session_bench import (
    CHAT,
    NEIGHBOURS,
    SessionBench,
    ids,
    message,
    numbered,
)
from agent_runtime.testing.storage_bench import StorageBench, StorageCheck, expect, expect_error


async def updates_replace_the_content(bench: StorageBench) -> None:
    """Content, role, size and estimate are the new ones; place and leaf stay."""
    chat = SessionBench(bench)
    await chat.chain(5)
    new = message("m2", "longer than it was before", role="system", tokens=50)
    expect(True, await chat.update(new))
    expect(new.content, await chat.reads.message(CHAT, "m2"))
    await chat.expect_path(*ids(0, 4))
    sizes = await chat.reads.sizes(CHAT, None)
    expect(SizeRow("m2", "system", len(new.content)), sizes[2])
    expect(1 + 2 + 50 + 4 + 5, await chat.reads.visible_tokens(CHAT, None))
    await _expect_sums(chat)


async def updates_reach_every_path_below(bench: StorageBench) -> None:
    """Sizes of all paths through a message change with it, those of other paths do not."""
    chat = SessionBench(bench)
    await chat.chain(4)
    await chat.append("a", "b", parent="m1")
    await chat.append("c", parent="a")
    await chat.append("side", parent="m0")
    await chat.append("lone", parent=None)
    for name, text in (("m1", "x" * 99), ("a", ""), ("m0", "y"), ("c", "ы" * 7)):
        await chat.update(message(name, text, tokens=len(text)))
        await _expect_sums(chat, "m3", "b", "c", "side", "lone", "m0")
    await chat.append("d", parent="c")
    await _expect_sums(chat, "d")


async def unknown_updates_store_nothing(bench: StorageBench) -> None:
    """An id that is not there is not made, nor found."""
    chat = SessionBench(bench)
    await chat.append("m1")
    await chat.of(NEIGHBOURS[0]).append("m2")
    expect(False, await chat.update(message("m2", "ghost")))
    expect(None, await chat.reads.message(CHAT, "m2"))
    expect([], await chat.found("ghost"))
    await chat.expect_path("m1")
    expect(message("m2").content, await chat.reads.message(NEIGHBOURS[0], "m2"))


async def deleting_splices(bench: StorageBench) -> None:
    """Children of a deleted message go to its parent."""
    chat = SessionBench(bench)
    await chat.chain(5)
    expect(["m2"], await chat.delete("m2"))
    await chat.expect_path("m0", "m1", "m3", "m4")
    expect(["m3"], await chat.children("m1"))
    expect([], await chat.children("m2"))
    expect(None, await chat.reads.message(CHAT, "m2"))
    await _expect_sums(chat, "m4", "m3")


async def deleted_ids_begin_anew(bench: StorageBench) -> None:
    """A deleted id that is appended again is a new message at the end."""
    chat = SessionBench(bench)
    await chat.chain(4)
    await chat.delete("m1")
    await chat.append("m1")
    await chat.expect_path("m0", "m2", "m3", "m1")
    await chat.expect_path("m0", "m2", "m3", leaf="m3")
    expect([], await chat.children("m1"))


async def the_latest_leaf_is_found_again(bench: StorageBench) -> None:
    """With its leaf gone, a session's latest leaf is the newest message that is left."""
    chat = SessionBench(bench)
    await chat.chain(3)
    await chat.delete("m2")
    await chat.expect_path("m0", "m1")
    await chat.append("b", parent="m0")
    await chat.append("c", parent="m1")
    await chat.delete("c")
    await chat.expect_path("m0", "b")
    await chat.delete("m0", "b")
    await chat.expect_path("m1")
    await chat.delete("m1")
    await chat.expect_path()
    await chat.append("new")
    await chat.expect_path("new")


async def many_are_deleted_at_once(bench: StorageBench) -> None:
    """Unknown ids, repeated ids and any order are fine; the answer names what was there."""
    chat = SessionBench(bench)
    await chat.chain(12)
    gone = await chat.delete("m11", "nope", "m3", "m4", "m3", "m7", "m0")
    expect(["m0", "m11", "m3", "m4", "m7"], sorted(gone))
    await chat.expect_path("m1", "m2", "m5", "m6", "m8", "m9", "m10")
    await _expect_sums(chat, "m10", "m8", "m1")
    expect([], await chat.delete("m3", "nope"))
    expect([], await chat.delete())
    await chat.chain(3, first=12)
    await chat.expect_path("m1", "m2", "m5", "m6", *ids(8, 10), *ids(12, 14))


async def branches_survive_deletion(bench: StorageBench) -> None:
    """What hung below deleted messages hangs below the nearest one that is left."""
    chat = SessionBench(bench)
    await chat.chain(6)
    await chat.append("a", "b", "c", parent="m3")
    await chat.append("d", "e", parent="b")
    await chat.append("f", parent="m3")
    await chat.delete("m3", "b", "m2")
    await chat.expect_path("m0", "m1", "m4", "m5", leaf="m5")
    await chat.expect_path("m0", "m1", "a", "c", leaf="c")
    await chat.expect_path("m0", "m1", "a", "d", "e", leaf="e")
    await chat.expect_path("m0", "m1", "f")
    expect(["m4", "a", "f"], await chat.children("m1"))
    expect(["c", "d"], await chat.children("a"))
    await _expect_sums(chat, "m5", "c", "e", "f")
    await chat.append("g", parent="a")
    await chat.append("h", parent="m1")
    await chat.expect_path("m0", "m1", "a", "g", leaf="g")
    await chat.expect_path("m0", "m1", "h")


async def whole_branches_are_deleted(bench: StorageBench) -> None:
    """Branches on a branch that is gone hang where it hung; without root they are roots."""
    chat = SessionBench(bench)
    await chat.append("r", "s")
    await chat.append("a", "b", parent="r")
    await chat.append("c", "d", parent="b")
    await chat.delete("a", "b")
    await chat.expect_path("r", "c", "d", leaf="d")
    await chat.delete("r")
    await chat.expect_path("c", "d", leaf="d")
    await chat.expect_path("s", leaf="s")
    expect([], await chat.children("r"))
    await chat.append("e", parent="s")
    await chat.append("t", parent="c")
    await chat.expect_path("s", "e", leaf="e")
    await chat.expect_path("c", "t")
    await _expect_sums(chat, "d", "e", "t")


async def overlay_ends_move_inward(bench: StorageBench) -> None:
    """An overlay whose end is deleted covers what is left of its range; of nothing, it goes."""
    chat = SessionBench(bench)
    await chat.chain(8)
    await chat.overlay("S", "m1", "m4")
    await chat.delete("m4")
    expect(["m0", "S!", "m5", "m6", "m7"], await chat.visible())
    await chat.delete("m1")
    expect(["m0", "S!", "m5", "m6", "m7"], await chat.visible())
    [left] = await chat.reads.overlays(CHAT)
    expect(("m2", "m3"), (left.from_id, left.to_id))
    await chat.append("m1", "m4")
    expect(["m0", "S!", "m5", "m6", "m7", "m1", "m4"], await chat.visible())
    await chat.delete("m2", "m3")
    expect(["m0", "m5", "m6", "m7", "m1", "m4"], await chat.visible())
    expect([], await chat.reads.overlays(CHAT))


async def messages_within_an_overlay_may_go(bench: StorageBench) -> None:
    """Deleting or updating inside a range leaves the overlay and its summary as they are."""
    chat = SessionBench(bench)
    await chat.chain(8)
    await chat.overlay("S", "m1", "m5", tokens=100)
    await chat.delete("m3")
    await chat.update(message("m2", "z" * 50, tokens=999))
    expect(["m0", "S!", "m6", "m7"], await chat.visible())
    expect(1 + 100 + 7 + 8, await chat.reads.visible_tokens(CHAT, None))
    await chat.delete("m0")
    expect(["S!", "m6", "m7"], await chat.visible())
    expect(100 + 7 + 8, await chat.reads.visible_tokens(CHAT, None))


async def superseded_overlays_move_too(bench: StorageBench) -> None:
    """After a deletion a path that ends within the later overlay still shows the earlier one."""
    chat = SessionBench(bench)
    await chat.chain(9)
    await chat.overlay("A", "m1", "m3")
    await chat.overlay("B", "m1", "m6")
    await chat.delete("m1", "m6")
    expect(["m0", "B!", "m7", "m8"], await chat.visible())
    expect(["m0", "A!", "m4"], await chat.visible("m4"))
    await chat.delete("m2", "m3")
    expect(["m0", "B!", "m7", "m8"], await chat.visible())
    expect(["m0", "m4"], await chat.visible("m4"))


async def deletion_stays_in_its_session(bench: StorageBench) -> None:
    """The same ids of other sessions stay, with their overlays and search entries."""
    chat = SessionBench(bench)
    others = [chat.of(neighbour) for neighbour in NEIGHBOURS]
    for each in (chat, *others):
        await each.chain(5)
        await each.overlay("S", "m1", "m3")
    await chat.delete("m1", "m2", "m4")
    await chat.clear()
    for each in others:
        await each.expect_path(*ids(0, 4))
        expect(["m0", "S!", "m4"], await each.visible())
        expect(5, len(await each.found("message")))


async def clearing_empties_the_session(bench: StorageBench) -> None:
    """Messages, branches, overlays and search entries go; the same ids can come again."""
    chat = SessionBench(bench)
    await chat.chain(6)
    await chat.append("a", parent="m2")
    await chat.overlay("S", "m1", "m3")
    await chat.clear()
    await chat.expect_path()
    expect([], await chat.reads.overlays(CHAT))
    expect([], await chat.found("message"))
    expect([], await chat.reads.tree(CHAT, 0, 10))
    await chat.chain(6)
    expect(ids(0, 5), await chat.visible())
    expect([], await chat.children("m5"))
    await _expect_sums(chat, "m5")


async def a_failing_change_is_undone(bench: StorageBench) -> None:
    """A unit that fails after deleting, updating and clearing has changed nothing."""
    chat = SessionBench(bench)
    await chat.chain(6)
    await chat.overlay("S", "m1", "m3")

    async def unit(tx: Transaction) -> None:
        await tx.sessions.messages.delete(CHAT, ["m1", "m5"])
        await tx.sessions.messages.update(CHAT, message("m0", "changed"))
        await tx.sessions.messages.clear(CHAT)
        raise LookupError

    await expect_error(LookupError, bench.storage.write(unit))
    expect(["m0", "S!", "m4", "m5"], await chat.visible())
    expect(6, len(await chat.found("message")))
    await _expect_sums(chat, "m5")


async def sizes_are_bytes_of_utf8(bench: StorageBench) -> None:
    """Sizes count the stored text's bytes, root first, raw rows also under overlays."""
    chat = SessionBench(bench)
    await chat.append(
        NewMessage("m0", "user", '{"id":"m0","é":"' + "é" * 10 + '"}', 1, ""),
        message("m1", "z", role="assistant"),
    )
    await chat.overlay("S", "m0", "m1")
    expect(
        [SizeRow("m0", "user", 39), SizeRow("m1", "assistant", 67)],
        await chat.reads.sizes(CHAT, None),
    )
    expect([SizeRow("m0", "user", 39)], await chat.reads.sizes(CHAT, "m0"))
    expect([], await chat.reads.sizes(CHAT, "compaction_S"))


async def the_tree_is_read_in_pages(bench: StorageBench) -> None:
    """All messages of all branches come oldest first, with their parents and depths."""
    chat = SessionBench(bench)
    await chat.chain(3)
    await chat.append("a", parent="m0")
    await chat.append("lone", parent=None)
    rows = await chat.reads.tree(CHAT, 0, 100)
    expect([*ids(0, 2), "a", "lone"], [row.id for row in rows])
    number = {row.id: row.seq for row in rows}
    parents = [None, number["m0"], number["m1"], number["m0"], None]
    expect(parents, [row.parent_seq for row in rows])
    expect([0, 1, 2, 1, 0], [row.depth for row in rows])
    one = numbered(1)
    expect(
        ("assistant", len(one.content), 2, one.content),
        (rows[1].role, rows[1].bytes, rows[1].tokens, rows[1].content),
    )
    expect(rows[2:4], await chat.reads.tree(CHAT, rows[1].seq, 2))
    expect([], await chat.reads.tree(CHAT, rows[-1].seq, 2))


async def _expect_sums(chat: SessionBench, *leaves: str) -> None:
    """Check that what paths say of their size is the sum of what their messages say."""
    rows = {row.id: row for row in await chat.reads.tree(chat.ref, 0, 1_000)}
    for leaf in leaves or (None,):
        path = [rows[each] for each in await chat.raw(leaf)]
        window = await chat.reads.recent(chat.ref, leaf, 0, 1)
        expect(sum(row.bytes for row in path), window.total_bytes, f"bytes down to {leaf}")
        expect(list(range(len(path))), [row.depth for row in path], f"depths down to {leaf}")
        if not await chat.reads.overlays(chat.ref):
            tokens = await chat.reads.visible_tokens(chat.ref, leaf)
            expect(sum(row.tokens for row in path), tokens, f"tokens down to {leaf}")


CHANGE_CHECKS: Sequence[StorageCheck] = (
    updates_replace_the_content,
    updates_reach_every_path_below,
    unknown_updates_store_nothing,
    deleting_splices,
    deleted_ids_begin_anew,
    the_latest_leaf_is_found_again,
    many_are_deleted_at_once,
    branches_survive_deletion,
    whole_branches_are_deleted,
    overlay_ends_move_inward,
    messages_within_an_overlay_may_go,
    superseded_overlays_move_too,
    deletion_stays_in_its_session,
    clearing_empties_the_session,
    a_failing_change_is_undone,
    sizes_are_bytes_of_utf8,
    the_tree_is_read_in_pages,
)
