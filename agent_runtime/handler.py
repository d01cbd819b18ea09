"""Marking an agent's methods as callable from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])

_MARK = "__agent_runtime_callable__"
DEFAULT_TIMEOUT = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class CallableOptions:
    """How a callable method runs.

    Args:
        description: For people and models that choose among an agent's methods.
        exclusive: Calls of the agent's exclusive methods run one at a time, in order of arrival.
        timeout: Limit of one run of the method; it is cancelled and the call fails.
        streaming: The method is given a `ResponseStream` first; for calls by connected clients.
    """

    description: str = ""
    exclusive: bool = False
    timeout: timedelta = DEFAULT_TIMEOUT
    streaming: bool = False


def callable(
    *,
    description: str = "",
    exclusive: bool = False,
    timeout: timedelta = DEFAULT_TIMEOUT,
    streaming: bool = False,
) -> Callable[[Method], Method]:
    """Mark a method as callable by clients, services, workflows and other agents.

    The mark is not inherited by an override (state-and-sync 11.8).
    """
    if not isinstance(description, str):
        raise TypeError("write @callable() with parentheses")
    options = CallableOptions(description, exclusive, timeout, streaming)

    def mark(method: Method) -> Method:
        setattr(method, _MARK, options)
        return method

    return mark


def callable_options(method: object) -> CallableOptions | None:
    """Return how a method was marked, or None if it was not."""
    options = getattr(method, _MARK, None)
    return options if isinstance(options, CallableOptions) else None
