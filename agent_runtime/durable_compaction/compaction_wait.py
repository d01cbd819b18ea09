"""Code that cannot wait for a compaction, as the compaction waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from agent_runtime.errors import SessionSetupError

_who: ContextVar[str] = ContextVar("agent_runtime_cannot_wait_for_compactions", default="")


@contextmanager
def cannot_wait(who: str) -> Iterator[None]:
    """Let `check_may_wait` refuse in the code within, and in tasks that it starts.

    Args:
        who: Names the code, as the subject of a sentence.
    """
    token = _who.set(who)
    try:
        yield
    finally:
        _who.reset(token)


def check_may_wait() -> None:
    """Refuse a compaction that would be waited for in vain.

    Raises:
        SessionSetupError: The compaction's own code asks for it, or the agent is not started yet.
    """
    if who := _who.get():
        raise SessionSetupError(
            f"{who} cannot call compact() and wait for it, as the compaction waits for the same "
            "code; call it in a handler"
        )
