"""One line for each tool of a conversation: how often it was called and how it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_runtime.compaction.json_text import json_text
from agent_runtime.compaction.message_parts import (
    UNKNOWN_TOOL,
    has_tool_result,
    is_bare_tool_result,
    tool_call_id_of,
    tool_name_of,
    tool_parts_of,
    tool_result_of,
)
from agent_runtime.compaction.sentences import clipped
from agent_runtime.compaction.tool_pairs import tool_answers
from agent_runtime.json_value import Json

_SHOWN_CHARS = 80
_LINE = re.compile(r"tool (.{1,100}?): (\d+) calls?(?:, (\d+) failed)?(?:, last: (.*))?")


@dataclass
class _Tally:
    calls: int = 0
    failed: int = 0
    last: str = ""

    def line(self, name: str) -> str:
        """Return what `tool_lines` reads back."""
        failed = f", {self.failed} failed" if self.failed else ""
        last = f", last: {self.last}" if self.last else ""
        return clipped(f"tool {name}: {self.calls} call{'s'[: self.calls != 1]}{failed}{last}")


def tool_lines(messages: Sequence[Mapping[str, Json]], earlier: Sequence[str]) -> list[str]:
    """Return a line for each tool, the last used first; earlier such lines are added in.

    Lines of `earlier` that tell no tool are left out.
    """
    tallies: dict[str, _Tally] = {}
    for line in reversed(earlier):
        if told := _LINE.fullmatch(line):
            name, calls, failed, last = told.groups()
            tally = tallies.setdefault(name, _Tally())
            tally.calls += int(calls)
            tally.failed += int(failed or 0)
            tally.last = tally.last or last or ""
    for call, answer in _calls(messages):
        name = clipped(tool_name_of(call) or UNKNOWN_TOOL, 100)
        # Taken out and put in again: the order is that of the last use.
        tally = tallies.pop(name, _Tally())
        tally.calls += 1
        tally.failed += answer is not None and _has_failed(answer)
        tally.last = f"{_shown(call.get('input'))} → {_outcome(answer)}"
        tallies[name] = tally
    return [tally.line(name) for name, tally in reversed(tallies.items())]


def is_tool_line(line: str) -> bool:
    """Say whether a line is one of `tool_lines`."""
    return bool(_LINE.fullmatch(line))


def _calls(
    messages: Sequence[Mapping[str, Json]],
) -> list[tuple[Mapping[str, Json], Mapping[str, Json] | None]]:
    answers = tool_answers(messages)
    told = {(answer.answer_index, answer.call_id) for answer in answers}
    results = {(answer.call_index, answer.call_id): answer.part for answer in answers}
    calls: list[tuple[Mapping[str, Json], Mapping[str, Json] | None]] = []
    for index, message in enumerate(messages):
        for part in tool_parts_of(message):
            place = (index, tool_call_id_of(part) or "")
            if place in told or is_bare_tool_result(part):
                continue
            calls.append((part, part if has_tool_result(part) else results.get(place)))
    return calls


def _has_failed(answer: Mapping[str, Json]) -> bool:
    result = tool_result_of(answer)
    return (
        answer.get("state") == "output-error"
        or bool(answer.get("errorText"))
        or (isinstance(result, dict) and bool(result.get("error")))
        or (isinstance(result, str) and result.startswith("Error"))
    )


def _outcome(answer: Mapping[str, Json] | None) -> str:
    if answer is None:
        return "no result yet"
    error = answer.get("errorText")
    return f"error: {_shown(error)}" if error else _shown(tool_result_of(answer))


def _shown(value: Json) -> str:
    text = value if isinstance(value, str) else json_text(value)
    return clipped(text[: 4 * _SHOWN_CHARS], _SHOWN_CHARS)
