"""Comparing two recordings of one scenario, client by client."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from tests.e2e.differences import Difference, LeftOut

_PLACEHOLDER = re.compile(r"<uuid-\d+>")
_ELSEWHERE = "driver"
"""Stands for what was seen by no client: plain HTTP, measurements, warnings."""


def lines_by_client(record: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """Return what each client saw, as lines that are equal where the recordings say the same.

    The order between clients is only what happened that day; placeholders are numbered as they
    first appear to the client, and the order of keys says nothing.
    """
    seen: dict[str, list[str]] = defaultdict(list)
    for entry in record:
        if entry["kind"] in ("meta", "note"):
            continue
        who = entry.pop("who", _ELSEWHERE)
        headers = entry.get("response", {}).get("headers", {})
        if "content-type" in headers:
            headers["content-type"] = headers["content-type"].lower().replace(" ", "")
        seen[who].append(line_of(entry))
    return {who: renumber(lines) for who, lines in seen.items()}


def line_of(entry: dict[str, Any]) -> str:
    """Write an entry, its keys in order."""
    return json.dumps(entry, sort_keys=True, ensure_ascii=False)


def renumber(lines: list[str]) -> list[str]:
    """Number placeholders as they first appear."""
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return numbers.setdefault(match[0], f"<uuid-{len(numbers) + 1}>")

    return [_PLACEHOLDER.sub(number, line) for line in lines]


def announce_states(lines: list[str]) -> list[str]:
    """Let each identity say that a state follows, as the newest release does (19.2.1)."""
    entries = [json.loads(line) for line in lines]
    received = [entry["json"] for entry in entries if entry["kind"] == "recv" and "json" in entry]
    for frame, following in pairwise(received):
        if _is_of(frame, "cf_agent_identity") and _is_of(following, "cf_agent_state"):
            frame["stateFollows"] = True
    return [line_of(entry) for entry in entries]


def apply(difference: Difference, lines: list[str]) -> list[str]:
    """Replace the lines that a difference names; they must be there, and once."""
    named = [line_of(json.loads(line)) for line in difference.reference]
    count = len(named)
    places = [at for at in range(len(lines)) if lines[at : at + count] == named]
    assert len(places) == 1, f"found {len(places)} times in the reference: {difference}"
    ours = [line_of(json.loads(line)) for line in difference.ours]
    return [*lines[: places[0]], *ours, *lines[places[0] + count :]]


def leave_out(left_out: LeftOut, lines: list[str]) -> list[str]:
    """Drop the lines that are not compared."""
    entries = [json.loads(line) for line in lines]
    calls = {
        entry["json"]["id"]
        for entry in entries
        if entry["kind"] == "send" and _is_of(entry.get("json"), "rpc")
        if entry["json"].get("method") == left_out.method
    }

    def is_dropped(entry: dict[str, Any]) -> bool:
        if left_out.method is None:
            return not left_out.kinds or entry["kind"] in left_out.kinds
        frame: Any = entry.get("json")
        is_frame = _is_of(frame, "rpc") and frame.get("id") in calls
        return is_frame or entry.get("method") == left_out.method

    return [line_of(entry) for entry in entries if not is_dropped(entry)]


def results_with_answers(lines: list[str]) -> list[str]:
    """Put each result right behind the frame that brought it.

    A client hands it to the caller a moment later, and what came in the same packet is before it.
    """
    entries = [json.loads(line) for line in lines]
    methods: dict[str, str] = {}
    for at, entry in enumerate(entries):
        frame = entry.get("json")
        if not _is_of(frame, "rpc"):
            continue
        if entry["kind"] == "send":
            methods[str(frame.get("id"))] = str(frame.get("method"))
        elif frame.get("done") or frame.get("success") is False:
            method = methods.pop(str(frame.get("id")), None)
            later = range(at + 1, len(entries))
            found = [n for n in later if _is_result(entries[n], method)]
            if found:
                entries.insert(at + 1, entries.pop(found[0]))
    return [line_of(entry) for entry in entries]


def answers_last(lines: list[str]) -> list[str]:
    """Put the answers to calls behind all else, in the order in which the calls were made."""

    def is_answer(line: str) -> bool:
        entry = json.loads(line)
        is_frame = entry["kind"] == "recv" and _is_of(entry.get("json"), "rpc")
        return is_frame or entry["kind"] in ("result", "error")

    answers = sorted(filter(is_answer, lines))
    return [*(line for line in lines if not is_answer(line)), *answers]


def _is_result(entry: dict[str, Any], method: str | None) -> bool:
    is_one = entry["kind"] in ("result", "error")
    return is_one and entry.get("method") in (method, f"stub.{method}")


def _is_of(frame: Any, kind: str) -> bool:
    return isinstance(frame, dict) and frame.get("type") == kind
