"""Checks of reading the end of a path within a budget."""

from __future__ import annotations

from collections.abc import Sequence

from agent_runtime.testing.session_bench import CHAT, SessionBench, ids, message
from agent_runtime.testing.storage_bench import StorageBench, StorageCheck, expect

_MUCH = 10 * 2**20


async def small_histories_are_whole(bench: StorageBench) -> None:
    """What fits is returned as it is, with its size."""
    chat = SessionBench(bench)
    await chat.chain(6)
    expect((ids(0, 5), False), await chat.recent(_MUCH))
    window = await chat.reads.recent(CHAT, None, _MUCH, 1)
    sizes = await chat.reads.sizes(CHAT, None)
    expect(sum(row.bytes for row in sizes), window.total_bytes)


async def budgets_keep_the_end(bench: StorageBench) -> None:
    """As many messages as fit the budget, to the byte; the leaf always."""
    chat = SessionBench(bench)
    await chat.append(*(message(f"m{n}", "x" * 1_024) for n in range(10)))
    size = (await chat.reads.sizes(CHAT, None))[0].bytes
    for count in range(1, 11):
        shown = (ids(10 - count, 9), count < 10)
        expect(shown, await chat.recent(size * count), f"{count} messages")
        expect(shown, await chat.recent(size * (count + 1) - 1 if count < 10 else _MUCH))
    expect((["m9"], True), await chat.recent(1))
    expect((["m9"], True), await chat.recent(0))
    window = await chat.reads.recent(CHAT, "m4", size * 2, 1)
    expect((2, True, size * 5), (len(window.rows), window.is_truncated, window.total_bytes))
    window = await chat.reads.recent(CHAT, "nope", size * 2, 1)
    expect(([], False, 0), (window.rows, window.is_truncated, window.total_bytes))


async def the_floor_goes_before_the_budget(bench: StorageBench) -> None:
    """So many messages come however large they are, and more only if all fit."""
    chat = SessionBench(bench)
    await chat.append(*(message(f"m{n}", "x" * 1_024) for n in range(10)))
    expect((ids(6, 9), True), await chat.recent(2_048, 4))
    expect((ids(0, 9), False), await chat.recent(1, 10))
    expect((ids(0, 9), False), await chat.recent(1, 2**31))


async def one_large_leaf_stands_alone(bench: StorageBench) -> None:
    """A leaf beyond the budget is returned whole; nothing small is taken past it."""
    chat = SessionBench(bench)
    await chat.append(message("small", "s"), message("huge", "x" * 50_000))
    expect((["huge"], True), await chat.recent(1_024))
    await chat.append(message("last", "s"))
    expect((["last"], True), await chat.recent(1_024))


async def windows_are_larger_than_one_page(bench: StorageBench) -> None:
    """A window of hundreds of rows over several branches ends exactly where it must."""
    chat = SessionBench(bench)
    await chat.append(*(message(f"m{n:03}", "x" * 50) for n in range(300)))
    await chat.append(*(message(f"b{n:03}", "x" * 50) for n in range(300)), parent="m149")
    path = [f"m{n:03}" for n in range(150)] + [f"b{n:03}" for n in range(300)]
    size = (await chat.reads.sizes(CHAT, None))[0].bytes
    for count in (1, 63, 64, 65, 299, 300, 301, 320, 321, 449, 450):
        expect((path[-count:], count < 450), await chat.recent(size * count), f"{count} rows")
        expect((path[-count:], count < 450), await chat.recent(0, count), f"at least {count}")


async def overlays_apply_within_the_window(bench: StorageBench) -> None:
    """An overlay that is in the window with both ends shows; otherwise its raw rows do."""
    chat = SessionBench(bench)
    await chat.chain(6)
    await chat.overlay("S", "m1", "m3")
    expect((["m0", "S!", "m4", "m5"], False), await chat.recent(_MUCH))
    expect((["S!", "m4", "m5"], True), await chat.recent(0, 5))
    expect((ids(2, 5), True), await chat.recent(0, 4))


async def pages_are_the_whole_history(bench: StorageBench) -> None:
    """Read from the end up they show what is seen at once, whatever their size; summaries too."""
    chat = SessionBench(bench)
    await chat.append(*(message(f"m{n:03}", "x" * 50) for n in range(200)))
    await chat.append(*(message(f"b{n:03}", "x" * 50) for n in range(100)), parent="m149")
    await chat.overlay("S", "m010", "m100")
    await chat.overlay("T", "b097", "b099")
    for leaf in (None, "m199", "m050", "m000"):
        whole = await chat.visible(leaf)
        for size in (0, 100, 1_000, 10_000, _MUCH):
            expect(whole, await chat.pages(size, leaf), f"{size} bytes, leaf {leaf}")
    expect([], await chat.pages(0, "nope"))
    size = (await chat.reads.sizes(CHAT, "m000"))[0].bytes
    page = await chat.reads.page(CHAT, "m009", size * 3)
    expect((3, "m006"), (len(page.rows), page.earlier_leaf))
    page = await chat.reads.page(CHAT, "m009", size * 4 - 1)
    expect((3, "m006"), (len(page.rows), page.earlier_leaf))
    page = await chat.reads.page(CHAT, "m105", size * 5 + len("Summary S"))
    expect((6, "m009"), (len(page.rows), page.earlier_leaf))
    page = await chat.reads.page(CHAT, "m105", size * 5 + len("Summary S") - 1)
    expect((5, "m100"), (len(page.rows), page.earlier_leaf))


WINDOW_CHECKS: Sequence[StorageCheck] = (
    small_histories_are_whole,
    budgets_keep_the_end,
    the_floor_goes_before_the_budget,
    one_large_leaf_stands_alone,
    windows_are_larger_than_one_page,
    overlays_apply_within_the_window,
    pages_are_the_whole_history,
)
