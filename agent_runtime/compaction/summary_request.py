"""One summary asked of a summarizer; what is too long is asked for in chunks, then merged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from agent_runtime.compaction.summary_prompt import build_merge_prompt, build_summary_prompt
from agent_runtime.compaction.token_estimate import estimate_messages_tokens, estimate_string_tokens
from agent_runtime.compaction.transcript import chunk_messages, guarded
from agent_runtime.errors import ConfigurationError
from agent_runtime.json_value import Json

MIN_SUMMARY_TOKENS = 100
SUMMARY_SHARE = 0.2

MIN_PROMPT_CHARS = 6_000
"""Less leaves no room for a message beside the instructions."""

DEFAULT_MAX_PROMPT_CHARS = 100_000
"""Fits a window of 128,000 tokens whatever the script: a character is a token at the most."""

_DIGITS = 20
_SECTION_FRAME = len("<partial_summary>\n\n</partial_summary>\n\n")
_CUT_NOTE = "\n[summary cut: {left_out} characters left out]"


@dataclass(frozen=True)
class SummaryRequest:
    """What a summarizer gets: messages to summarize, or summaries of parts to join.

    Attributes:
        messages: In order; empty when `partial_summaries` are to be joined.
        previous: The summary of everything before, which the new one has to take in; or None.
        budget_tokens: About how long the summary should be.
        partial_summaries: Of the parts of one long conversation, in order.
        is_part: Whether its summary is one of several to be merged, not the answer.
    """

    messages: tuple[Mapping[str, Json], ...]
    previous: str | None = None
    budget_tokens: int = MIN_SUMMARY_TOKENS
    partial_summaries: tuple[str, ...] = ()
    is_part: bool = False

    @cached_property
    def prompt(self) -> str:
        """The request as text for a model."""
        if self.partial_summaries:
            return build_merge_prompt(self.partial_summaries, self.previous, self.budget_tokens)
        return build_summary_prompt(self.messages, self.previous, self.budget_tokens)


def summary_budget(messages: Sequence[Mapping[str, Json]]) -> int:
    """Return how many tokens a summary should have: a fifth of the messages', at least 100."""
    return _budget(estimate_messages_tokens(messages))


def split_request(request: SummaryRequest, max_prompt_chars: int | None) -> list[SummaryRequest]:
    """Return the request, or one for each chunk of its messages when its prompt is too long.

    Every message is in some prompt, and no prompt is longer than `max_prompt_chars`. The earlier
    summary is left to `merge_requests`; one that would fill a third of a prompt is read in chunks
    like the messages, as their first.

    Raises:
        ConfigurationError: `max_prompt_chars` is below 6000.
    """
    if max_prompt_chars is None:
        return [request]
    if max_prompt_chars < MIN_PROMPT_CHARS:
        raise ConfigurationError(
            f"max_prompt_chars is {max_prompt_chars}; give a summarizer at least "
            f"{MIN_PROMPT_CHARS} characters, or None for any length",
        )
    if len(request.prompt) <= max_prompt_chars:
        return [request]
    messages = request.messages
    if request.previous and not carries_previous(request.previous, max_prompt_chars):
        part = {"type": "text", "text": request.previous}
        messages = ({"id": "", "role": "earlier summary", "parts": [part]}, *messages)
    frame = len(build_summary_prompt([], None, request.budget_tokens)) + _DIGITS
    room = max_prompt_chars - frame
    return [
        SummaryRequest(tuple(chunk), budget_tokens=summary_budget(chunk), is_part=True)
        for chunk in chunk_messages(messages, room)
    ]


def merge_requests(
    request: SummaryRequest, summaries: Sequence[str], max_prompt_chars: int
) -> list[SummaryRequest]:
    """Return the request that joins the summaries of all chunks, or several when they are too long.

    As long as they are parts, their results are merged in the same way; there are fewer each time.
    The last is the answer to the request and takes in the earlier summary. A summary that would
    fill half of a prompt is cut, with a note that says so.
    """
    previous = request.previous if carries_previous(request.previous, max_prompt_chars) else None
    final = replace(request, messages=(), previous=previous, partial_summaries=tuple(summaries))
    if len(final.prompt) <= max_prompt_chars:
        return [final]
    frame = len(build_merge_prompt([], previous, request.budget_tokens)) + _DIGITS
    room = max_prompt_chars - frame
    groups: list[list[str]] = []
    left = 0
    for summary in summaries:
        summary = _cut(guarded(summary), room // 2 - _SECTION_FRAME)
        size = len(summary) + _SECTION_FRAME
        if not groups or size > left:
            groups.append([])
            left = room
        groups[-1].append(summary)
        left -= size
    if len(groups) == 1:
        return [replace(final, partial_summaries=tuple(groups[0]))]
    return [
        SummaryRequest(
            messages=(),
            budget_tokens=_budget(sum(map(estimate_string_tokens, group))),
            partial_summaries=tuple(group),
            is_part=True,
        )
        for group in groups
    ]


def shorter_requests(request: SummaryRequest, max_prompt_chars: int) -> list[SummaryRequest]:
    """Return requests that ask for the same within shorter prompts, for a model that reads less."""
    if request.partial_summaries:
        return merge_requests(request, request.partial_summaries, max_prompt_chars)
    return split_request(request, max_prompt_chars)


def earlier_summary_requests(previous: str, max_prompt_chars: int) -> list[SummaryRequest]:
    """Return what reads an earlier summary in parts, too long for the prompt of a merge."""
    part = {"type": "text", "text": previous}
    message = {"id": "", "role": "earlier summary", "parts": [part]}
    requests = split_request(
        SummaryRequest((message,), budget_tokens=summary_budget([message])), max_prompt_chars
    )
    return [replace(each, is_part=True) for each in requests]


def carries_previous(previous: str | None, max_prompt_chars: int | None) -> bool:
    """Tell whether an earlier summary goes into the prompt that merges, as it is short enough."""
    if max_prompt_chars is None:
        return True
    return len(guarded(previous or "")) <= max_prompt_chars // 3


def _cut(summary: str, max_chars: int) -> str:
    if len(summary) <= max_chars:
        return summary
    note = _CUT_NOTE.format(left_out=len(summary))
    kept = summary[: max_chars - len(note)]
    return kept + _CUT_NOTE.format(left_out=len(summary) - len(kept))


def _budget(tokens: int) -> int:
    return max(MIN_SUMMARY_TOKENS, math.floor(SUMMARY_SHARE * tokens))
