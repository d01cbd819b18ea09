"""Summaries without a model: what was said, quoted, chosen by rule and by rank.

Deterministic, in any language, offline. It understands nothing; it keeps what extraction by rank
would lose (the first request, tools and how they ended, identifiers and numbers, late questions)
and fills the rest of its budget with the most telling sentences.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from agent_runtime.compaction.json_text import json_text
from agent_runtime.compaction.message_parts import text_of, tool_parts_of
from agent_runtime.compaction.sentence_ranking import RankedSentence, choose_sentences
from agent_runtime.compaction.sentences import clipped, is_question, split_sentences
from agent_runtime.compaction.summary_request import SummaryRequest
from agent_runtime.compaction.summary_sections import lines_within, read_sections
from agent_runtime.compaction.token_estimate import CJK_ESTIMATOR
from agent_runtime.compaction.tool_tally import is_tool_line, tool_lines
from agent_runtime.compaction.transcript import MAX_TOOL_CHARS
from agent_runtime.json_value import Json

# Of the budget, at the most; what a section leaves goes to the key points.
TOPIC_SHARE = 0.25
STATE_SHARE = 0.25
OPEN_SHARE = 0.15
MENTIONED_SHARE = 0.15

_FEW = 3
_MAX_QUESTIONS = 5
_MENTIONED = "mentioned: "
_MAX_MENTIONED = 200
_EARLIER_WEIGHT = 1.5
_SHORT_CHARS = 25
_FRAME_TOKENS = 30

_TOKEN = re.compile(r"[A-Za-z0-9_./:@#%$€+-]{2,120}")
_TELLING = re.compile(r"\d|\w[_/@]\w|[a-z][A-Z]|[A-Z]{2}|[#$€]\w")


class _Said(NamedTuple):
    position: int
    role: str
    sentence: str
    line: str
    weight: float


class ExtractiveSummarizer:
    """A `Summarizer` that needs no model and reads any length.

    A hundred thousand characters take less than a second, in a thread of their own. The result
    has the four headings, each line a quotation; it is about as long as the budget asks.
    """

    max_prompt_chars: int | None = None

    async def summarize(self, request: SummaryRequest) -> str:
        """Return a summary of the request's messages that takes earlier summaries in."""
        return await asyncio.to_thread(extractive_summary, request)


def extractive_summary(request: SummaryRequest) -> str:
    """Return the summary; the same request always gives the same. Never blank."""
    messages = request.messages
    budget = max(1, request.budget_tokens - _FRAME_TOKENS)
    sections = read_sections(filter(None, [request.previous, *request.partial_summaries]))
    earlier = [line for lines in sections.by_heading().values() for line in lines]
    spoken = list(_spoken(messages))

    sections.topic = lines_within(
        sections.topic or _first_request(spoken), TOPIC_SHARE * budget, _cost
    )
    questions = [*_late_questions(spoken, len(messages)), *sections.open_items]
    sections.open_items = lines_within(questions, OPEN_SHARE * budget, _cost)
    sections.current_state = lines_within(
        _state(messages, spoken, sections.current_state, questions), STATE_SHARE * budget, _cost
    )
    told = dict.fromkeys([*sections.topic, *sections.current_state, *sections.open_items])
    candidates = [
        RankedSentence(line, line, _EARLIER_WEIGHT)
        for line in sections.key_points
        if not line.startswith(_MENTIONED)
    ]
    candidates += [RankedSentence(said.line, said.sentence, said.weight) for said in spoken]
    candidates = [each for each in candidates if each.line not in told]
    left = budget * (1 - MENTIONED_SHARE) - sum(map(_cost, told))
    sections.key_points = choose_sentences(candidates, left, _cost)
    sections.key_points += _mentioned(
        messages, earlier, " ".join([*told, *sections.key_points]), MENTIONED_SHARE * budget
    )
    return sections.render()


def _spoken(messages: Sequence[Mapping[str, Json]]) -> Iterator[_Said]:
    for position, message in enumerate(messages):
        role = " ".join(str(message.get("role")).split())
        for number, sentence in enumerate(split_sentences(text_of(message))):
            weight = 1.0 + 0.2 * (role == "user") + 0.2 * (number == 0)
            weight += 0.2 * bool(_TELLING.search(sentence)) + 0.2 * is_question(sentence)
            weight -= 0.8 * (len(sentence) < _SHORT_CHARS and not _TELLING.search(sentence))
            yield _Said(position, role, sentence, clipped(f"{role}: {sentence}"), weight)


def _first_request(spoken: Sequence[_Said]) -> list[str]:
    asked = [said for said in spoken if said.role == "user"] or spoken
    return [said.line for said in asked if said.position == asked[0].position][:_FEW]


def _late_questions(spoken: Sequence[_Said], count: int) -> list[str]:
    # Earlier ones have been answered since, or forgotten.
    late = count - count // 3 - 2
    questions = (
        said.line for said in spoken if said.position >= late and is_question(said.sentence)
    )
    return list(dict.fromkeys(questions))[-_MAX_QUESTIONS:]


def _state(
    messages: Sequence[Mapping[str, Json]],
    spoken: Sequence[_Said],
    earlier: Sequence[str],
    questions: Sequence[str],
) -> list[str]:
    answers = [said for said in spoken if said.role == "assistant"]
    last = [said.line for said in answers if said.position == answers[-1].position]
    last = [line for line in last if line not in questions][:_FEW]
    if not last:
        last = [line for line in earlier if not is_tool_line(line)]
    return [*last[:1], *tool_lines(messages, earlier), *last[1:]]


def _mentioned(
    messages: Sequence[Mapping[str, Json]], earlier: Sequence[str], told: str, budget: float
) -> list[str]:
    """Return a line of the identifiers and numbers that came up most and are not told already."""
    counts: Counter[str] = Counter()
    for text in (*earlier, *_texts(messages)):
        words = (word.strip("./:@#+-") for word in _TOKEN.findall(text))
        counts.update(word for word in words if len(word) > 1 and _TELLING.search(word))
    kept: list[str] = []
    budget -= _cost(_MENTIONED)
    for word, _ in counts.most_common(_MAX_MENTIONED):
        if word not in told and _cost(word) <= budget:
            budget -= _cost(word)
            kept.append(word)
    # In order of appearance, which the counter has kept.
    wanted = set(kept)
    words_in_order = [word for word in counts if word in wanted]
    return [_MENTIONED + ", ".join(words_in_order)] if kept else []


def _texts(messages: Sequence[Mapping[str, Json]]) -> Iterator[str]:
    for message in messages:
        yield text_of(message)
        for part in tool_parts_of(message):
            yield json_text(part.get("input"))[:MAX_TOOL_CHARS]


def _cost(line: str) -> int:
    return CJK_ESTIMATOR.string(line) + 1
