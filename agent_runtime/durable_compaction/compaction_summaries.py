"""Having the parts of a compaction summarized, stage by stage, each summary kept as it comes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime

from agent_runtime.blank_text import is_blank
from agent_runtime.call import CompactionStage
from agent_runtime.clock import now_milliseconds
from agent_runtime.compaction.compact_context import CompactContext, CompactResult
from agent_runtime.compaction.compact_function import ReferenceCompactFunction
from agent_runtime.compaction.metered_summarizer import MeteredSummarizer, MeteredSummary
from agent_runtime.compaction.summarizer import Summarizer
from agent_runtime.compaction.summary_request import (
    MIN_PROMPT_CHARS,
    SummaryRequest,
    carries_previous,
    earlier_summary_requests,
    merge_requests,
    shorter_requests,
)
from agent_runtime.durable_compaction.compaction_parts import JobFacts, JobPart, JobRows
from agent_runtime.errors import (
    ContextTooLongError,
    HandlerError,
    ModelError,
    SessionSetupError,
)
from agent_runtime.json_value import to_json
from agent_runtime.llm.usable_response import usage_of
from agent_runtime.session.maybe_await import maybe_await
from agent_runtime.session.session import Session
from agent_runtime.storage.session_protocol import SessionRef, UsageRow

MAX_PARALLEL_CALLS = 4
BLANK_SUMMARY = "the summarizer answered with blank text"


Within = Callable[[str, Callable[[], Awaitable[MeteredSummary]]], Awaitable[MeteredSummary]]


class CompactionSummaries:
    """The model's part of a job.

    Args:
        rows: What the job keeps.
        within: Runs what is asked for a part as an invocation of its own, under a key, so that the
            steps that a summarizer takes are found again by the same part.
        attempt: Which attempt of the step this is, so that each is paid for.
        deadline: When the step's caller gives up.
        on_progress: Called whenever a piece of an answer has arrived.
    """

    def __init__(
        self,
        rows: JobRows,
        session_ref: SessionRef,
        session: Session,
        within: Within,
        *,
        attempt: int = 1,
        deadline: datetime | None = None,
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        self._rows = rows
        self._session_ref = session_ref
        self._session = session
        self._within = within
        self._attempt = attempt
        self._deadline = deadline
        self._on_progress = on_progress

    async def summarize(self, stage: int) -> CompactionStage:
        """Have those parts of a stage summarized that are not yet, and prepare the next stage.

        After a failure or a blank answer no further call begins; those under way are waited for,
        as they are paid for.

        Raises:
            ModelError: The model's; what was summarized is kept.
            Exception: The session's own function or summarizer raised.
        """
        facts = await self._rows.facts()
        if following := await self._rows.count(stage + 1):
            return CompactionStage(following)
        failure = await self._ask_missing(facts, stage)
        if isinstance(failure, ContextTooLongError):
            return await self._shorten(facts, stage, failure)
        if failure is not None:
            raise failure
        summaries = [each or "" for each in await self._rows.summaries(stage)]
        if any(map(is_blank, summaries)):
            return CompactionStage(reason=BLANK_SUMMARY)
        return await self._merge(facts, stage, summaries)

    async def _ask_missing(self, facts: JobFacts, stage: int) -> Exception | None:
        present = await self._rows.summaries(stage)
        waiting = deque(number for number, summary in enumerate(present) if summary is None)
        failure: Exception | None = None

        async def work() -> None:
            nonlocal failure
            while waiting and failure is None:
                try:
                    summary = await self._summarize_part(facts, stage, waiting.popleft())
                except Exception as error:
                    failure = failure or error
                else:
                    if is_blank(summary):
                        waiting.clear()

        await asyncio.gather(*(work() for _ in range(min(MAX_PARALLEL_CALLS, len(waiting)))))
        return failure

    async def _summarize_part(self, facts: JobFacts, stage: int, position: int) -> str:
        part = await self._rows.part(stage, position)
        if part.summary is not None:
            return part.summary
        key = f"{self._rows.key}/{stage}/{position}"
        request = part.request
        try:
            answer = await self._within(
                key, lambda: self._run_function(facts) if request is None else self._ask(request)
            )
        except ModelError as error:
            await self._note_failed(key, error)
            raise
        text = _storable(answer.text)
        usage = None
        if answer.model:
            spent = (answer.input_tokens, answer.output_tokens, answer.cost)
            usage = UsageRow(key, "compaction", answer.model, *spent, now_milliseconds())
        await self._rows.put_summary(stage, position, text, self._session_ref, usage)
        return text

    async def _ask(self, request: SummaryRequest) -> MeteredSummary:
        summarizer = self._summarizer()
        if isinstance(summarizer, MeteredSummarizer):
            return await summarizer.summarize_metered(
                request, deadline=self._deadline, on_progress=self._on_progress
            )
        return MeteredSummary(await summarizer.summarize(request), "")

    async def _note_failed(self, key: str, error: ModelError) -> None:
        """Note what an answer cost that nobody can use."""
        spent = usage_of(error)
        if not (spent.input_tokens or spent.output_tokens):
            return
        model = str(error.details_map.get("model", ""))
        usage = UsageRow(
            f"{key}/failed-{self._attempt}",
            "compaction",
            model,
            spent.input_tokens,
            spent.output_tokens,
            0.0,
            now_milliseconds(),
        )
        await self._rows.add_usage(self._session_ref, usage)

    async def _run_function(self, facts: JobFacts) -> MeteredSummary:
        function = self._session.compactor.function
        if function is None:
            raise SessionSetupError("the session has no compaction function any more")
        history = await self._session.get_history(facts.leaf_id)
        context = CompactContext(token_counter=self._session.compactor.token_counter)
        result: object = await maybe_await(function(history, context))
        if result is not None and not isinstance(result, CompactResult):
            raise HandlerError(
                f"the compaction function returned {type(result).__name__}; return a CompactResult "
                "or None"
            )
        fields = None if result is None else asdict(result)
        text = to_json(fields, what="the compaction function's result").decode()
        return MeteredSummary(text, "")

    def _summarizer(self) -> Summarizer:
        function = self._session.compactor.function
        if not isinstance(function, ReferenceCompactFunction):
            raise SessionSetupError(
                "the session's compaction function was replaced by one of another kind since the "
                "compaction began; the next one uses it"
            )
        return function.summarizer

    async def _merge(
        self, facts: JobFacts, stage: int, summaries: Sequence[str]
    ) -> CompactionStage:
        first = await self._rows.part(stage, 0)
        limit = first.max_prompt_chars
        if first.is_last or limit is None:
            return CompactionStage()
        whole = SummaryRequest((), facts.previous, facts.budget_tokens)
        merging = [JobPart(each, limit) for each in merge_requests(whole, summaries, limit)]
        await self._rows.add_stage(stage + 1, merging)
        return CompactionStage(len(merging))

    async def _shorten(
        self, facts: JobFacts, stage: int, error: ContextTooLongError
    ) -> CompactionStage:
        """Go on with prompts of half the length, as the model reads less than was believed.

        Summaries that are there stay, in their places.
        """
        parts = await self._rows.parts(stage)
        asked = [each.request for each in parts if each.summary is None and each.request]
        longest = max((len(request.prompt) for request in asked), default=0)
        if longest <= MIN_PROMPT_CHARS:
            raise error
        limit = max(MIN_PROMPT_CHARS, longest // 2)
        shorter = [JobPart(each, limit) for each in _earlier(facts, parts[0], limit)]
        for part in parts:
            if part.request is not None and part.summary is None:
                requests = shorter_requests(part.request, limit)
                shorter += [JobPart(each, limit) for each in requests]
            else:
                shorter.append(replace(part, max_prompt_chars=limit))
        if len(shorter) > 1:
            shorter = [replace(each, request=_as_part(each.request)) for each in shorter]
        await self._rows.add_stage(stage + 1, shorter)
        return CompactionStage(len(shorter))


def _earlier(facts: JobFacts, part: JobPart, max_prompt_chars: int) -> list[SummaryRequest]:
    """Return what reads the earlier summary, if it no longer fits the prompt that merges.

    The one part that still has all messages to read takes it along when it is split.
    """
    is_whole = part.is_last and part.request is not None and not part.request.partial_summaries
    was_carried = carries_previous(facts.previous, part.max_prompt_chars)
    is_carried = carries_previous(facts.previous, max_prompt_chars)
    if not facts.previous or is_whole or is_carried or not was_carried:
        return []
    return earlier_summary_requests(facts.previous, max_prompt_chars)


def _as_part(request: SummaryRequest | None) -> SummaryRequest | None:
    return None if request is None else replace(request, is_part=True, previous=None)


def _storable(text: object) -> str:
    if not isinstance(text, str):
        raise HandlerError(f"the summarizer returned {type(text).__name__}; a summary is a text")
    return text.encode("utf-8", "replace").decode().replace("\0", "")
