"""Checks of overlays: which of them a path shows, and what they change of its size."""

from __future__ import annotations

from collections.abc import Sequence

from agent_runtime.storage.session_protocol import OverlayRow, SessionRef
from agent_runtime.testing.session_bench import CHAT, NEIGHBOURS, SessionBench, ids
from agent_runtime.testing.storage_bench import StorageBench, StorageCheck, expect

Range = tuple[str, str, str]
"""Name, first and last message."""

_TABLE: Sequence[tuple[str, Sequence[Range], Sequence[str]]] = (
    ("partial overlap", [("A", "m1", "m5"), ("B", "m3", "m8")], ["m0", "A!", *ids(6, 9)]),
    ("apart", [("A", "m1", "m3"), ("B", "m6", "m8")], ["m0", "A!", "m4", "m5", "B!", "m9"]),
    ("later but shorter", [("A", "m1", "m7"), ("B", "m1", "m3")], ["m0", "B!", *ids(4, 9)]),
    ("enclosing", [("A", "m3", "m5"), ("B", "m1", "m7")], ["m0", "B!", "m8", "m9"]),
    ("enclosed", [("A", "m1", "m7"), ("B", "m3", "m5")], ["m0", "A!", "m8", "m9"]),
    ("reversed", [("A", "m5", "m2")], ids(0, 9)),
    ("one message", [("A", "m5", "m5")], [*ids(0, 4), "A!", *ids(6, 9)]),
    ("everything", [("A", "m0", "m9")], ["A!"]),
    ("unknown end", [("A", "m1", "nope")], ids(0, 9)),
    ("unknown start", [("A", "nope", "m3")], ids(0, 9)),
    ("same range twice", [("A", "m1", "m3"), ("B", "m1", "m3")], ["m0", "B!", *ids(4, 9)]),
    ("side by side", [("A", "m1", "m3"), ("B", "m4", "m6")], ["m0", "A!", "B!", *ids(7, 9)]),
    (
        "longer, longer, shorter",
        [("A", "m1", "m3"), ("B", "m1", "m8"), ("C", "m1", "m5")],
        ["m0", "C!", *ids(6, 9)],
    ),
)


async def the_visible_history_is_as_the_table_says(bench: StorageBench) -> None:
    """Each case of overlays on ten messages shows what is written for it."""
    for number, (name, ranges, visible) in enumerate(_TABLE):
        chat = SessionBench(bench, SessionRef(CHAT.agent, f"s{number}"))
        await chat.chain(10)
        for one in ranges:
            await chat.overlay(*one)
        expect(visible, await chat.visible(), name)
        expect(visible, await chat.visible("m9"), f"{name}, at the leaf")
        await chat.expect_path(*ids(0, 9))


async def tokens_are_those_of_what_shows(bench: StorageBench) -> None:
    """The estimate counts summaries in place of what they hide."""
    for number, (name, ranges, visible) in enumerate(_TABLE):
        chat = SessionBench(bench, SessionRef(CHAT.agent, f"s{number}"))
        await chat.chain(10)
        for index, one in enumerate(ranges):
            await chat.overlay(*one, tokens=100 * (index + 1))
        names = [one[0] for one in ranges]
        expected = sum(
            100 * (names.index(each[:-1]) + 1) if each.endswith("!") else int(each[1:]) + 1
            for each in visible
        )
        expect(expected, await chat.reads.visible_tokens(chat.ref, None), name)


async def overlays_end_on_the_path(bench: StorageBench) -> None:
    """Read at a leaf within its range an overlay shows nothing; at its end it does."""
    chat = SessionBench(bench)
    await chat.chain(10)
    await chat.overlay("A", "m1", "m5")
    expect(ids(0, 3), await chat.visible("m3"))
    expect(["m0", "A!"], await chat.visible("m5"))
    expect(["m0", "A!", "m6"], await chat.visible("m6"))
    expect(["m0"], await chat.visible("m0"))
    expect(1 + 2 + 3 + 4, await chat.reads.visible_tokens(CHAT, "m3"))


async def a_later_overlay_hides_only_where_it_ends(bench: StorageBench) -> None:
    """Of overlays with one start, a path that ends between them shows the shorter one."""
    chat = SessionBench(bench)
    await chat.chain(10)
    await chat.overlay("A", "m1", "m3")
    await chat.overlay("B", "m1", "m5")
    await chat.overlay("C", "m1", "m8")
    expect(["m0", "C!", "m9"], await chat.visible())
    expect(["m0", "B!", "m6", "m7"], await chat.visible("m7"))
    expect(["m0", "A!", "m4"], await chat.visible("m4"))
    expect(["m0", "A!"], await chat.visible("m3"))
    expect(["m0", "m1", "m2"], await chat.visible("m2"))
    expect(1 + 7 + 5, await chat.reads.visible_tokens(CHAT, "m4"))


async def branches_have_their_own_overlays(bench: StorageBench) -> None:
    """Of overlays with one start, each branch shows the latest one that ends on it."""
    chat = SessionBench(bench)
    await chat.append("m0", "m1", "a2", "a3", "a4")
    await chat.append("b2", "b3", parent="m1")
    await chat.overlay("A1", "m0", "a2")
    await chat.overlay("B", "m0", "b2")
    await chat.overlay("A2", "m0", "a3")
    expect(["A2!", "a4"], await chat.visible("a4"))
    expect(["B!", "b3"], await chat.visible("b3"))
    expect(["A1!"], await chat.visible("a2"))
    expect(["m0", "m1"], await chat.visible("m1"))
    await chat.append("c3", parent="a2")
    expect(["A1!", "c3"], await chat.visible("c3"))


async def times_do_not_order_overlays(bench: StorageBench) -> None:
    """Of overlays made at one time, or with clocks going back, the one stored last counts."""
    chat = SessionBench(bench)
    await chat.chain(4)
    await chat.overlay("z", "m0", "m1", at=9)
    await chat.overlay("a", "m0", "m2", at=9)
    expect(["a!", "m3"], await chat.visible())
    await chat.overlay("b", "m0", "m2", at=1)
    expect(["b!", "m3"], await chat.visible())
    expect(["z", "a", "b"], [row.id for row in await chat.reads.overlays(CHAT)])


async def overlays_are_listed_with_all_they_have(bench: StorageBench) -> None:
    """Listings are oldest first and hold superseded overlays and such that never apply."""
    chat = SessionBench(bench)
    await chat.chain(6)
    stored = [
        await chat.overlay("A", "m1", "m2", at=11),
        await chat.overlay("B", "m1", "m4", at=12),
        await chat.overlay("C", "nope", "m4", at=13),
    ]
    expect(OverlayRow("B", "Summary B", "m1", "m4", 12), stored[1])
    expect(stored, await chat.reads.overlays(CHAT))
    [shown] = [row for row in await chat.reads.history(CHAT, None) if isinstance(row, OverlayRow)]
    expect(("B", "Summary B", 12), (shown.id, shown.summary, shown.created_at))


async def an_overlay_is_stored_once(bench: StorageBench) -> None:
    """An id that is there returns what is stored and changes nothing."""
    chat = SessionBench(bench)
    await chat.chain(6)
    first = await chat.overlay("A", "m1", "m2", at=11)
    await chat.overlay("B", "m1", "m4")
    expect(first, await chat.overlay("A", "m1", "m5", at=99))
    expect(["m0", "B!", "m5"], await chat.visible())
    expect(2, len(await chat.reads.overlays(CHAT)))


async def unresolved_overlays_wait_for_their_ends(bench: StorageBench) -> None:
    """An overlay may name messages that come later; it applies from then on."""
    chat = SessionBench(bench)
    await chat.overlay("A", "m1", "m3")
    await chat.chain(3)
    expect(ids(0, 2), await chat.visible())
    await chat.chain(2, first=3)
    expect(["m0", "A!", "m4"], await chat.visible())


async def overlays_belong_to_their_session(bench: StorageBench) -> None:
    """The same messages in another session show raw; ids of overlays may be the same there."""
    chat = SessionBench(bench)
    await chat.chain(5)
    await chat.overlay("A", "m1", "m3")
    for neighbour in NEIGHBOURS:
        other = chat.of(neighbour)
        await other.chain(5)
        expect(ids(0, 4), await other.visible())
        await other.overlay("A", "m0", "m1")
        expect(["A!", "m2", "m3", "m4"], await other.visible())
    expect(["m0", "A!", "m4"], await chat.visible())


async def history_goes_on_after_overlays(bench: StorageBench) -> None:
    """A second overlay from the same start takes in the first and what came after it."""
    chat = SessionBench(bench)
    await chat.chain(10)
    await chat.overlay("A", "m1", "m7")
    expect(["m0", "A!", "m8", "m9"], await chat.visible())
    await chat.chain(5, first=10)
    await chat.overlay("B", "m1", "m12")
    await bench.reopen()
    expect(["m0", "B!", "m13", "m14"], await chat.visible())
    expect(2, len(await chat.reads.overlays(CHAT)))


OVERLAY_CHECKS: Sequence[StorageCheck] = (
    the_visible_history_is_as_the_table_says,
    tokens_are_those_of_what_shows,
    overlays_end_on_the_path,
    a_later_overlay_hides_only_where_it_ends,
    branches_have_their_own_overlays,
    times_do_not_order_overlays,
    overlays_are_listed_with_all_they_have,
    an_overlay_is_stored_once,
    unresolved_overlays_wait_for_their_ends,
    overlays_belong_to_their_session,
    history_goes_on_after_overlays,
)
