"""Turns of conversations queue, and none waits for itself."""

from __future__ import annotations

import asyncio

import pytest

from agent_runtime.errors import InvalidRequestError
from agent_runtime.generation.session_turns import SessionTurns


async def test_turns_of_one_session_come_one_by_one_in_their_order() -> None:
    """Another session's does not wait."""
    turns, seen = SessionTurns(), list[str]()

    async def take(session_id: str, name: str) -> None:
        async with turns.turn(session_id):
            seen.append(f"{name} begins")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            seen.append(f"{name} ends")

    await asyncio.gather(take("a", "first"), take("a", "second"), take("b", "other"))

    firsts = [each for each in seen if not each.startswith("other")]
    assert firsts == ["first begins", "first ends", "second begins", "second ends"]
    assert seen.index("other begins") < seen.index("first ends")


@pytest.mark.parametrize("ring", [["a"], ["a", "b"], ["a", "b", "c"]])
async def test_turns_that_would_wait_for_each_other_are_refused(ring: list[str]) -> None:
    """The one that closes the ring is told so, and the others come to their end."""
    turns = SessionTurns()
    all_begun = asyncio.Barrier(len(ring))

    async def take(own: str, wanted: str) -> str:
        async with turns.turn(own):
            await all_begun.wait()
            try:
                async with turns.turn(wanted):
                    return "had both"
            except InvalidRequestError:
                return "refused"

    async with asyncio.timeout(10):
        ends = await asyncio.gather(*map(take, ring, [*ring[1:], ring[0]]))

    assert sorted(ends) == ["had both"] * (len(ring) - 1) + ["refused"]


async def test_who_gives_up_waiting_is_in_nobodys_way() -> None:
    """A cancelled wait leaves nothing behind."""
    turns = SessionTurns()

    async def take(own: str, wanted: str) -> None:
        async with turns.turn(own), turns.turn(wanted):
            pass

    is_free = asyncio.Event()

    async def hold(session_id: str) -> None:
        async with turns.turn(session_id):
            await is_free.wait()

    holding = asyncio.create_task(hold("b"))
    waiting = asyncio.create_task(take("a", "b"))
    for _ in range(3):
        await asyncio.sleep(0)
    waiting.cancel()
    assert [type(each) for each in await asyncio.gather(waiting, return_exceptions=True)] == [
        asyncio.CancelledError
    ]

    is_free.set()
    async with asyncio.timeout(10):
        await asyncio.gather(holding, asyncio.create_task(take("b", "a")))
