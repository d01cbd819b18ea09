"""One way to call what may be sync or async."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import TypeVar, overload

T = TypeVar("T")


@overload
async def maybe_await(answer: Awaitable[T]) -> T: ...
@overload
async def maybe_await(answer: Awaitable[T] | T) -> T: ...
async def maybe_await(answer: object) -> object:
    """Return an answer, waiting for it first if it is awaitable."""
    return await answer if inspect.isawaitable(answer) else answer
