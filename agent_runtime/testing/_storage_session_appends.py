"""Checks of appending to message trees: parents, heads, branches, what is there already."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent_runtime.errors import UnknownMessageError
from agent_runtime.storage.protocol import Transaction
from agent_runtime.storage.session_protocol import Appended
from agent_runtime.testing.session_bench import CHAT, NEIGHBOURS, SessionBench, ids, message
from agent_runtime.testing.storage_bench import (
    StorageBench,
    StorageCheck,
    expect,
    expect_error,
)


async def unknown_sessions_are_empty(bench: StorageBench) -> None:
    """A session that was never written to has nothing, and reading does not make it."""
    chat = SessionBench(bench)
    await chat.expect_path()
    await chat.expect_path(leaf="m1")
    expect([], await chat.visible())
    expect([], await chat.children("m1"))
    expect(None, await chat.reads.message(CHAT, "m1"))
    expect(0, await chat.reads.visible_tokens(CHAT, None))
    expect(([], False), await chat.recent(1024))
    expect([], await chat.reads.overlays(CHAT))
    expect([], await chat.reads.tree(CHAT, 0, 10))
    expect([], await chat.found("message"))
    expect(False, await chat.update(message("m1")))
    expect([], await chat.delete("m1"))
    await chat.clear()
    await chat.delete_session()
    expect([], await chat.reads.session_ids(CHAT.agent))


async def messages_follow_the_latest_leaf(bench: StorageBench) -> None:
    """Without a parent each message goes below the one before, in one call or in several."""
    chat = SessionBench(bench)
    expect([Appended(True, None)], await chat.append("m0"))
    expect(
        [Appended(True, "m0"), Appended(True, "m1")],
        await chat.append("m1", "m2"),
    )
    await chat.expect_path("m0", "m1", "m2")
    expect(["m1"], await chat.children("m0"))
    expect([], await chat.children("m2"))
    expect([], await chat.append(), "nothing appended")


async def content_comes_back_exactly(bench: StorageBench) -> None:
    """Content is text like any other: nothing in it is lost or changed."""
    chat = SessionBench(bench)
    texts = ["", " a ", "ключ 用户 😀\u2028\ufeff", "'; DROP TABLE messages; --", "x" * 200_000]
    rows = [message(f"id '{n}' ☃", text) for n, text in enumerate(texts)]
    await chat.append(*rows)
    await bench.reopen()
    for row in rows:
        expect(row.content, await chat.reads.message(CHAT, row.id))
    expect([row.content for row in rows], await chat.reads.history(CHAT, None))


async def a_parent_can_be_named(bench: StorageBench) -> None:
    """A named parent gets another child; the latest leaf moves to it, older leaves stay."""
    chat = SessionBench(bench)
    await chat.append("m1")
    await chat.append("m2a", parent="m1")
    expect([Appended(True, "m1")], await chat.append("m2b", parent="m1"))
    expect(["m2a", "m2b"], await chat.children("m1"))
    await chat.expect_path("m1", "m2b")
    await chat.expect_path("m1", "m2a", leaf="m2a")
    await chat.append("m3", parent="m2a")
    await chat.expect_path("m1", "m2a", "m3")
    await chat.append("m4")
    await chat.expect_path("m1", "m2a", "m3", "m4")
    await chat.append("m2c", parent="m1")
    expect(["m2a", "m2b", "m2c"], await chat.children("m1"))


async def no_parent_makes_a_root(bench: StorageBench) -> None:
    """An explicit None starts another tree, whose path is itself."""
    chat = SessionBench(bench)
    await chat.append("m1", "m2")
    expect([Appended(True, None)], await chat.append("m3", parent=None))
    await chat.expect_path("m3")
    expect([], await chat.children("m2"))
    await chat.append("m4", "m5", parent=None)
    await chat.expect_path("m4", "m5")
    await chat.expect_path("m1", "m2", leaf="m2")
    await chat.append("m6", parent="m2")
    await chat.expect_path("m1", "m2", "m6")


async def unknown_parents_make_roots(bench: StorageBench) -> None:
    """A parent that is unknown here, one of another session too, is as none."""
    chat, other = SessionBench(bench), SessionBench(bench, NEIGHBOURS[0])
    await other.append("elsewhere")
    await chat.append("m1")
    for number, parent in enumerate(("nope", "elsewhere", "compaction_x", "M1")):
        name = f"root{number}"
        expect([Appended(True, None)], await chat.append(name, parent=parent))
        await chat.expect_path(name)
    await other.expect_path("elsewhere")


async def strict_parents_must_exist(bench: StorageBench) -> None:
    """Strictly, an unknown parent refuses the whole call; nothing is stored."""
    chat = SessionBench(bench)
    await expect_error(UnknownMessageError, chat.append("a", "b", parent="nope", is_strict=True))
    expect([], await chat.reads.session_ids(CHAT.agent), "no session was made")
    await chat.append("m1")
    await expect_error(UnknownMessageError, chat.append("a", "b", parent="nope", is_strict=True))
    await chat.expect_path("m1")
    expect(None, await chat.reads.message(CHAT, "a"))
    await chat.append("a", parent="m1", is_strict=True)
    await chat.append("b", is_strict=True)
    await chat.append("c", parent=None, is_strict=True)
    await chat.expect_path("m1", "a", "b", leaf="b")


async def known_ids_are_left_alone(bench: StorageBench) -> None:
    """Appending an id again changes nothing, tells its parent, and the call goes on below it."""
    chat = SessionBench(bench)
    await chat.append("m1", "m2", "m3")
    expect([Appended(False, "m1")], await chat.append(message("m2", "other"), parent=None))
    expect(message("m2").content, await chat.reads.message(CHAT, "m2"))
    await chat.expect_path("m1", "m2", "m3")
    expect(
        [Appended(True, "m3"), Appended(False, "m1"), Appended(True, "m2"), Appended(False, "m2")],
        await chat.append("n1", "m2", "n2", "n2"),
    )
    await chat.expect_path("m1", "m2", "n2")
    await chat.expect_path("m1", "m2", "m3", "n1", leaf="n1")
    expect([Appended(False, "m2")], await chat.append("m3"), "an inner message")
    await chat.expect_path("m1", "m2", "n2")


async def one_call_may_repeat_the_leaf(bench: StorageBench) -> None:
    """A call that names the latest leaf itself goes on below it, also twice."""
    chat = SessionBench(bench)
    await chat.append("m1", "m2")
    expect(
        [Appended(False, "m1"), Appended(True, "m2"), Appended(False, "m1"), Appended(True, "m2")],
        await chat.append("m2", "a", "m2", "b"),
    )
    await chat.expect_path("m1", "m2", "b")
    expect(["a", "b"], await chat.children("m2"))
    expect([Appended(False, None)], await chat.append("m1", parent="b"))
    expect([Appended(True, "b")], await chat.append("b2", parent="b"))
    await chat.expect_path("m1", "m2", "b", "b2")


async def branches_nest(bench: StorageBench) -> None:
    """A branch of a branch of a chain has the whole way up to the root."""
    chat = SessionBench(bench)
    await chat.chain(31)
    await chat.append(*ids(0, 29, "b"), parent="m30")
    await chat.append("x0", parent="m30")
    await chat.append("y0", "y1", parent="b14")
    await chat.append("z0", parent="y0")
    await chat.expect_path(*ids(0, 30), *ids(0, 29, "b"), leaf="b29")
    await chat.expect_path(*ids(0, 30), "x0", leaf="x0")
    await chat.expect_path(*ids(0, 30), *ids(0, 14, "b"), "y0", "z0")
    await chat.expect_path(*ids(0, 30), *ids(0, 14, "b"), "y0", "y1", leaf="y1")
    await chat.expect_path(*ids(0, 12), leaf="m12")
    expect(["b0", "x0"], await chat.children("m30"))
    expect(["b15", "y0"], await chat.children("b14"))
    expect(["y1", "z0"], await chat.children("y0"))


async def ancestors_are_known(bench: StorageBench) -> None:
    """A message is on the paths to itself and to all below it, and on no other."""
    chat = SessionBench(bench)
    await chat.append("m0", "m1", "m2")
    await chat.append("side", parent="m0")
    await chat.append("lone", parent=None)
    paths = {
        "m2": {"m0", "m1", "m2"},
        "side": {"m0", "side"},
        "lone": {"lone"},
        "m0": {"m0"},
        "nope": set(),
    }
    for leaf, path in paths.items():
        for id in ("m0", "m1", "m2", "side", "lone", "nope"):
            expect(id in path, await chat.reads.is_on_path(CHAT, id, leaf), f"{id} above {leaf}")
    expect(False, await chat.reads.is_on_path(NEIGHBOURS[0], "m0", "m2"))


async def every_message_may_begin_a_branch(bench: StorageBench) -> None:
    """A path over very many branches is read like any other."""
    chat = SessionBench(bench)
    await chat.append("m0")
    for number in range(1, 60):
        await chat.append(f"old{number}", parent=f"m{number - 1}")
        await chat.append(f"m{number}", parent=f"m{number - 1}")
    await chat.expect_path(*ids(0, 59))
    expect(ids(0, 59), await chat.visible())
    await chat.expect_path(*ids(0, 29), "old30", leaf="old30")


async def appends_at_once_make_one_chain(bench: StorageBench) -> None:
    """Concurrent appends without a parent lose nothing and branch nowhere."""
    chat = SessionBench(bench)
    await chat.append("root")
    results = await asyncio.gather(*(chat.append(f"n{number}") for number in range(50)))
    path = await chat.raw()
    expect({"root", *(f"n{number}" for number in range(50))}, set(path), "all messages")
    expect(51, len(path), "length")
    parents = {f"n{number}": result[0].parent_id for number, result in enumerate(results)}
    expect(dict(zip(path[1:], path, strict=False)), parents, "parents that callers were told")


async def one_unit_may_append_often(bench: StorageBench) -> None:
    """Each append of a unit sees those before it; if the unit fails none was made."""
    chat = SessionBench(bench)

    async def unit(tx: Transaction) -> None:
        for name in ("a", "b", "c"):
            await tx.sessions.messages.append(CHAT, [message(name)], None, is_auto_parent=True)

    async def failing(tx: Transaction) -> None:
        await unit(tx)
        raise LookupError

    await expect_error(LookupError, bench.storage.write(failing))
    await chat.expect_path()
    await bench.storage.write(unit)
    await chat.expect_path("a", "b", "c")


async def sessions_have_their_own_trees(bench: StorageBench) -> None:
    """The same message ids live in other sessions and agents without meeting."""
    chat = SessionBench(bench)
    await chat.append("m0", "m1")
    for neighbour in NEIGHBOURS:
        await chat.of(neighbour).append("m0", parent=None)
        await chat.of(neighbour).append(message("m2", "only here"), "m1")
    await chat.append("m3")
    await chat.expect_path("m0", "m1", "m3")
    for neighbour in NEIGHBOURS:
        await chat.of(neighbour).expect_path("m0", "m2", "m1")
        expect(["m2"], await chat.of(neighbour).children("m0"))
    expect(None, await chat.reads.message(CHAT, "m2"))
    expect(["chat", "", "Chat"], await chat.reads.session_ids(CHAT.agent))


async def restarts_change_nothing(bench: StorageBench) -> None:
    """The path, the leaf and the branches are those from before; appending goes on."""
    chat = SessionBench(bench)
    await chat.chain(20)
    await chat.append("side", parent="m3")
    await chat.append("m20", parent="m19")
    await bench.reopen()
    await chat.expect_path(*ids(0, 20))
    await chat.append("after")
    expect(["after"], await chat.children("m20"))
    await chat.expect_path(*ids(0, 20), "after")
    await chat.expect_path(*ids(0, 3), "side", leaf="side")


async def long_chains_are_whole(bench: StorageBench) -> None:
    """A path of more than ten thousand messages is complete, at its root too."""
    chat = SessionBench(bench)
    await chat.chain(10_050)
    await chat.expect_path(*ids(0, 10_049))
    expect(ids(0, 10_049), await chat.visible())


APPEND_CHECKS: Sequence[StorageCheck] = (
    unknown_sessions_are_empty,
    messages_follow_the_latest_leaf,
    content_comes_back_exactly,
    a_parent_can_be_named,
    no_parent_makes_a_root,
    unknown_parents_make_roots,
    strict_parents_must_exist,
    known_ids_are_left_alone,
    one_call_may_repeat_the_leaf,
    branches_nest,
    ancestors_are_known,
    every_message_may_begin_a_branch,
    appends_at_once_make_one_chain,
    one_unit_may_append_often,
    sessions_have_their_own_trees,
    restarts_change_nothing,
    long_chains_are_whole,
)
