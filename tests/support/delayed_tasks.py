"""A plugin that makes races of tests show: tasks go on late, at random, as on a loaded machine.

`python -m pytest -p tests.support.delayed_tasks [--delay-seed N] tests/integration`
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

SHARE = 0.03
"""Of the times that tasks go on, how many come late."""
SECONDS = 0.1
"""How late, at most."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the seed, so that a run can be tried again."""
    parser.addoption("--delay-seed", type=int, default=None)


def pytest_configure(config: pytest.Config) -> None:
    """Delay the tasks of all loops of asyncio's own."""
    seed = config.getoption("--delay-seed")
    delay_tasks(random.Random(time.time_ns() % 100_000 if seed is None else seed))


def delay_tasks(chance: random.Random) -> None:
    """Let some tasks wait that have got what they waited for.

    First steps keep their order, as everywhere; so do other callbacks, on which transports rely.
    """
    at_once = asyncio.BaseEventLoop.call_soon

    def call_soon(
        self: asyncio.BaseEventLoop,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if _is_wakeup(callback) and chance.random() < SHARE:
            later = chance.random() * SECONDS
            return self.call_later(later, callback, *args, context=context)
        return at_once(self, callback, *args, context=context)

    asyncio.BaseEventLoop.call_soon = call_soon  # type: ignore[assignment,method-assign]


def _is_wakeup(callback: Callable[..., object]) -> bool:
    task = getattr(callback, "__self__", None)
    return isinstance(task, asyncio.Task) and getattr(callback, "__name__", "") == "task_wakeup"
