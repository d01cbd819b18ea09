"""Where a range of messages may begin and end: never between a tool's call and its result.

Results may stand in several messages (parallel calls, F24) and apart from their call (a user who
writes while a tool runs): a boundary is sound when no call before it is answered behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from agent_runtime.compaction.token_estimate import estimate_message_tokens
from agent_runtime.compaction.tool_pairs import ToolAnswer, tool_answers
from agent_runtime.json_value import Json

DEFAULT_TAIL_TOKEN_BUDGET = 20_000
DEFAULT_MIN_TAIL_MESSAGES = 2


def align_forward(messages: Sequence[Mapping[str, Json]], index: int) -> int:
    """Move a boundary forward until every call made before it is answered before it.

    Unchanged outside `1..len-1`. Linear in the number of messages (sessions 8.2, ours).
    """
    if not 0 < index < len(messages):
        return index
    crossing = _crossing(len(messages), tool_answers(messages))
    while crossing[index]:
        index += 1
    return index


def align_backward(messages: Sequence[Mapping[str, Json]], index: int) -> int:
    """Move a boundary back until no message behind it needs a call made before it.

    An assistant's message that tells call and result together needs none. Unchanged outside
    `1..len-1`. Linear in the number of messages (sessions 8.2, ours).
    """
    if not 0 < index < len(messages):
        return index
    needing = (answer for answer in tool_answers(messages) if not answer.is_own_call)
    crossing = _crossing(len(messages), needing)
    while crossing[index]:
        index -= 1
    return index


def tool_groups(messages: Sequence[Mapping[str, Json]]) -> list[list[Mapping[str, Json]]]:
    """Part messages at every sound boundary; calls and all their results share a group."""
    crossing = _crossing(len(messages), tool_answers(messages))
    groups: list[list[Mapping[str, Json]]] = []
    for index, message in enumerate(messages):
        if crossing[index] and groups:
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


class TailWalk:
    """Finds the tail to keep: takes messages, newest first, until the budget is used.

    The newest message is taken whatever its size (sessions 8.3).
    """

    def __init__(self, messages: Sequence[Mapping[str, Json]], head_end: int, budget: float):
        self._messages = messages
        self._head_end = head_end
        self._budget = budget
        self._used: float = 0
        self._cut = len(messages)

    def takes(self, index: int, tokens: float) -> bool:
        """Take one message into the tail, or say that the tail is complete."""
        if self._used + tokens > self._budget and self._cut < len(self._messages):
            return False
        self._used += tokens
        self._cut = index
        return True

    def cut(self, min_tail_messages: int) -> int:
        """Return where the tail begins: aligned, and not after the last messages to be kept."""
        minimum = len(self._messages) - min_tail_messages
        cut = min(self._cut, minimum) if minimum >= self._head_end else self._cut
        return align_backward(self._messages, cut)


def find_tail_cut_by_tokens(
    messages: Sequence[Mapping[str, Json]],
    head_end: int,
    tail_token_budget: float = DEFAULT_TAIL_TOKEN_BUDGET,
    min_tail_messages: int = DEFAULT_MIN_TAIL_MESSAGES,
) -> int:
    """Return the index of the first message to keep after a compaction, by default estimates.

    `head_end` when everything from there fits; it may be less, when a group of calls begins in the
    head (sessions 8.3, golden vectors 26.5).
    """
    walk = TailWalk(messages, head_end, tail_token_budget)
    for index in range(len(messages) - 1, head_end - 1, -1):
        if not walk.takes(index, estimate_message_tokens(messages[index])):
            break
    return walk.cut(min_tail_messages)


def _crossing(count: int, answers: Iterable[ToolAnswer]) -> list[int]:
    """Return for each boundary `0..count` how many calls before it are answered behind it."""
    steps = [0] * (count + 1)
    for answer in answers:
        steps[answer.call_index + 1] += 1
        steps[answer.answer_index + 1] -= 1
    return list(accumulate(steps))
