"""Which messages a new summary stands for, given what is visible (contract 9.1).

All positions are indexes in the history that the compaction function was given, so the rules hold
for any store of messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_runtime.compaction.compact_context import CompactResult
from agent_runtime.session.message import COMPACTION_PREFIX, Message
from agent_runtime.session.session_provider import Compaction


@dataclass(frozen=True, slots=True)
class CompactionRange:
    """The real endpoints of a new overlay, earlier ones that it takes in included."""

    from_message_id: str
    to_message_id: str


@dataclass(frozen=True, slots=True)
class InvalidRange:
    """Why a compaction function's result is not stored."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Visible:
    """An overlay where the history shows it: its summary, or its raw messages."""

    overlay: Compaction
    first: int
    last: int


def compaction_range(
    history: Sequence[Message], overlays: Sequence[Compaction], result: CompactResult
) -> CompactionRange | InvalidRange:
    """Return the range to store a result under.

    The result's range grows by every visible overlay that it meets or adjoins, and must cover at
    least one message that no visible overlay covers.
    """
    positions = {message["id"]: index for index, message in enumerate(history)}
    visible = _visible_overlays(positions, overlays)
    ends = {COMPACTION_PREFIX + each.id: each for each in overlays}
    start, end = ends.get(result.from_message_id), ends.get(result.to_message_id)
    first = _position(
        start.from_message_id if start else result.from_message_id, positions, visible
    )
    last = _position(end.to_message_id if end else result.to_message_id, positions, visible)
    if first is None or last is None:
        unknown = result.from_message_id if first is None else result.to_message_id
        return InvalidRange(f"{unknown!r} is not in the history")
    if first > last:
        return InvalidRange(f"{result.from_message_id!r} comes after {result.to_message_id!r}")
    first, last = _grown(first, last, visible)
    covered = {index for each in visible for index in range(each.first, each.last + 1)}
    new = set(range(first, last + 1)) - covered
    if all(history[index]["id"].startswith(COMPACTION_PREFIX) for index in new):
        return InvalidRange("every message of the range is summarized already")
    return CompactionRange(
        _endpoint(history, first, visible, is_first=True),
        _endpoint(history, last, visible, is_first=False),
    )


def _visible_overlays(positions: dict[str, int], overlays: Sequence[Compaction]) -> list[_Visible]:
    found = []
    for overlay in overlays:
        at = positions.get(COMPACTION_PREFIX + overlay.id)
        if at is not None:
            found.append(_Visible(overlay, at, at))
            continue
        first = positions.get(overlay.from_message_id)
        last = positions.get(overlay.to_message_id)
        if first is not None and last is not None and first <= last:
            found.append(_Visible(overlay, first, last))
    return found


def _position(
    message_id: str, positions: dict[str, int], visible: Sequence[_Visible]
) -> int | None:
    # A summary that no overlay is known for has no ends to store.
    at = None if message_id.startswith(COMPACTION_PREFIX) else positions.get(message_id)
    if at is not None:
        return at
    for each in visible:
        if each.overlay.from_message_id == message_id:
            return each.first
        if each.overlay.to_message_id == message_id:
            return each.last
    return None


def _grown(first: int, last: int, visible: Sequence[_Visible]) -> tuple[int, int]:
    is_growing = True
    while is_growing:
        is_growing = False
        for each in visible:
            if each.first <= last + 1 and each.last >= first - 1:
                grown = (min(first, each.first), max(last, each.last))
                if grown != (first, last):
                    first, last = grown
                    is_growing = True
    return first, last


def _endpoint(
    history: Sequence[Message], at: int, visible: Sequence[_Visible], *, is_first: bool
) -> str:
    message_id: str = history[at]["id"]
    for each in visible:
        if message_id == COMPACTION_PREFIX + each.overlay.id:
            overlay = each.overlay
            return overlay.from_message_id if is_first else overlay.to_message_id
    return message_id
