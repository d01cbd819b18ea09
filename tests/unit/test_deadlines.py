"""One timer that fails all who wait too long."""

from __future__ import annotations

import asyncio
import time

import pytest

from agent_runtime.client.deadlines import Deadlines


class LateError(Exception):
    """What late ones get."""


def _future() -> asyncio.Future[int]:
    return asyncio.get_running_loop().create_future()


async def test_each_fails_at_its_own_time() -> None:
    """A future handed in later fails later, by the same number of seconds."""
    deadlines = Deadlines(1.0, LateError)
    start = time.monotonic()
    first, second = _future(), _future()
    deadlines.watch(first)
    await asyncio.wait([first], timeout=0.6)
    deadlines.watch(second)
    with pytest.raises(LateError):
        await first
    assert not second.done()
    with pytest.raises(LateError):
        await second
    assert 1.6 <= time.monotonic() - start < 30


async def test_what_is_done_in_time_stays() -> None:
    """Results and cancellations stand; those behind them still fail in time."""
    deadlines = Deadlines(0.05, LateError)
    done, given_up, late = _future(), _future(), _future()
    for future in (done, given_up, late):
        deadlines.watch(future)
    done.set_result(1)
    given_up.cancel()
    with pytest.raises(LateError):
        await late
    assert (done.result(), given_up.cancelled()) == (1, True)


async def test_closed_ones_fail_nobody() -> None:
    """After close nothing fails any more, and what is handed in then is watched again."""
    deadlines = Deadlines(0.05, LateError)
    forgotten, late = _future(), _future()
    deadlines.watch(forgotten)
    deadlines.close()
    deadlines.watch(late)
    with pytest.raises(LateError):
        await late
    assert not forgotten.done()


async def test_done_ones_are_not_kept() -> None:
    """However many were done in time, only the waiting ones are held."""
    deadlines = Deadlines(60, LateError)
    for _ in range(1_000):
        future = _future()
        deadlines.watch(future)
        future.set_result(1)
    assert len(deadlines._waiting) <= 1
    deadlines.close()
