"""A compaction as the command line shows it: its progress, its end, its cancellation."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from rich.console import Console

from agent_runtime.call import CompactionProgress
from agent_runtime.client.session_handle import SessionHandle
from agent_runtime.commands.compaction_bar import compact_visibly, describe_progress
from agent_runtime.compaction.compact_function import create_compact_function
from tests.conftest import Serve
from tests.support.compacting_agent import Compacting, setups
from tests.support.eventually import assert_eventually
from tests.support.session import user

_STEERING = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Pen:
    """A summarizer that writes as many summaries as it may."""

    def __init__(self) -> None:
        self.may_write = asyncio.Semaphore(0)
        self.count = 0

    async def __call__(self, prompt: str) -> str:
        """Wait for leave, and answer."""
        self.count += 1
        await self.may_write.acquire()
        return "a summary"


@asynccontextmanager
async def long_session(serve: Serve, pen: Pen) -> AsyncIterator[SessionHandle]:
    """A conversation that takes several parts."""
    name = uuid4().hex[:12]
    function = create_compact_function(pen, tail_token_budget=20, max_prompt_chars=6_000)
    setups[name] = lambda session: session.on_compaction(function)
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", name).session()
        await session.append_messages([user(f"m{n}", "x" * 900) for n in range(20)])
        yield session


async def test_a_bar_counts_the_parts_that_are_summarized(serve: Serve) -> None:
    """What the storage has is what the terminal shows."""
    pen, screen = Pen(), io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    async with long_session(serve, pen) as session:
        compacting = asyncio.create_task(compact_visibly(session, console=console))

        def shows(text: str) -> None:
            assert text in _STEERING.sub("", screen.getvalue())

        async def begins() -> None:
            shows("summarizing 0 of 3 parts")

        async def goes_on() -> None:
            shows("summarizing 2 of 3 parts")

        await assert_eventually(begins)
        pen.may_write.release()
        pen.may_write.release()
        await assert_eventually(goes_on)
        for _ in range(5):
            pen.may_write.release()
        result, reason = await compacting

        assert result is not None
        assert (result.summary, reason) == ("a summary", "")


async def test_who_cancels_the_command_cancels_the_compaction(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Ctrl-C does; nothing is drawn where there is no terminal."""
    pen, screen = Pen(), io.StringIO()
    async with long_session(serve, pen) as session:
        console = Console(file=screen)
        compacting = asyncio.create_task(compact_visibly(session, console=console))

        async def begins() -> None:
            assert pen.count > 0

        await assert_eventually(begins)
        compacting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await compacting
        outcome = await session.compaction.last_outcome()

        assert outcome is not None
        assert outcome.status == "cancelled"
        assert "cancelled" in capsys.readouterr().err
        assert screen.getvalue() == ""


def test_progress_in_words() -> None:
    """Phases as they are; one part is not parts."""
    assert describe_progress(CompactionProgress("planning")) == "planning"
    assert describe_progress(CompactionProgress("summarizing", 0, 1)) == "summarizing 0 of 1 part"
    assert (
        describe_progress(CompactionProgress("summarizing", 1, 3, 2))
        == "summarizing 2 of 3 parts, round 2"
    )
