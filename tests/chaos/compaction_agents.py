"""An agent that compacts, in a process that kills itself at the points that a file names.

The file `kill` in the agent's folder holds one point; it is gone when the process is.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agent_runtime import Agent
from agent_runtime.activities.compaction import CompactionActivities
from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.compaction.metered_summarizer import MeteredSummarizer, MeteredSummary
from agent_runtime.compaction.summary_request import SummaryRequest
from agent_runtime.durable_compaction.compaction_parts import JobRows
from agent_runtime.session.session import Session
from agent_runtime.session.session_compactor import SessionCompactor
from tests.chaos.agents import append

_FOLDER = Path(os.environ.get("COMPACTION_FOLDER", "."))


class Summarized(Agent):
    """Its summaries are good, but for agents called blank."""

    def configure_session(self, session: Session) -> Session:
        """Summarize when asked to, and count what the handler of errors is told."""

        def note(error: Exception) -> None:
            append(_FOLDER / "errors", type(error).__name__)

        function = create_compact_function(
            _Counting(is_blank=self.name == "blank"),
            protect_head=1,
            min_tail_messages=1,
            tail_token_budget=20,
            max_prompt_chars=6_000,
        )
        return session.on_compaction(function).on_compaction_error(note).compact_after(2_000)

    async def broadcast_session_frame(self, text: str) -> None:
        """Keep the frame."""
        append(_FOLDER / "frames", text)


class _Counting(MeteredSummarizer):
    max_prompt_chars = 6_000

    def __init__(self, *, is_blank: bool) -> None:
        self._text = " " if is_blank else "a summary"

    async def summarize(self, request: SummaryRequest) -> str:
        return self._text

    async def summarize_metered(self, request: SummaryRequest, **options: Any) -> MeteredSummary:
        append(_FOLDER / "calls", f"{len(request.messages)} {len(request.partial_summaries)}")
        return MeteredSummary(self._text, "counting", 10, 5)


def _dies_around(owner: type[Any], method: str, point: str) -> None:
    inner: Callable[..., Awaitable[Any]] = getattr(owner, method)

    async def dying(*args: Any, **kwargs: Any) -> Any:
        _die_at(f"before {point}")
        result = await inner(*args, **kwargs)
        _die_at(f"after {point}")
        return result

    setattr(owner, method, dying)


def _die_at(point: str) -> None:
    file = _FOLDER / "kill"
    if file.exists() and file.read_text() == point:
        file.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


_dies_around(JobRows, "begin", "the plan is stored")
_dies_around(JobRows, "put_summary", "a summary is stored")
_dies_around(JobRows, "add_stage", "the merge is planned")
_dies_around(SessionCompactor, "commit_job", "the overlay is stored")
_dies_around(SessionCompactor, "finish_job", "clients are told")
_dies_around(SessionCompactor, "end_job", "the failure is told")
_dies_around(JobRows, "forget", "the parts are dropped")
_dies_around(CompactionActivities, "_step", "a step is reported")
