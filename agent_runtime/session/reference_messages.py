"""Making a sound tree of the reference's message rows, which may have holes and circles."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson

from agent_runtime.errors import AgentRuntimeError
from agent_runtime.json_value import Json
from agent_runtime.session.reference_tables import MESSAGES, is_text
from agent_runtime.session.session_content import PlacedMessage
from agent_runtime.session.session_record import milliseconds_of
from agent_runtime.session.stored_session import new_message
from agent_runtime.storage.session_protocol import NewMessage


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """What could not be imported as it was.

    Args:
        key: Of the row: an id, or label and key.
        reason: What is wrong with it and what was done.
    """

    table: str
    key: str
    reason: str


def place_messages(
    rows: Sequence[tuple[Json, ...]], problems: list[ImportProblem]
) -> list[PlacedMessage]:
    """Return one session's messages in their order, parents first.

    Args:
        rows: id, parent_id, content and created_at, in the order of their making.
        problems: Added to. A row that is no message is left out and its children go to its parent;
            a message whose parent is gone, or whose ancestors form a circle, becomes a root.
    """
    messages: dict[str, NewMessage] = {}
    parents: dict[str, str | None] = {}
    for message_id, parent_id, content, created_at in rows:
        parents[message_id] = parent_id or None
        found = _message(message_id, content, created_at)
        if isinstance(found, str):
            problems.append(ImportProblem(MESSAGES, str(message_id), f"left out: {found}"))
        else:
            messages[message_id] = found
    kept = {each: _kept_parent(each, parents, messages, problems) for each in messages}
    return [PlacedMessage(kept[each], messages[each]) for each in _in_order(kept, problems)]


def time_of(value: Json) -> int | None:
    """Return a stored time, as text or native, as milliseconds since 1970; None if it is none."""
    if isinstance(value, datetime):
        value = value.isoformat()
    try:
        return milliseconds_of(value)
    except (TypeError, ValueError):
        return None


def _message(message_id: Json, content: Json, created_at: Json) -> NewMessage | str:
    if not is_text(message_id) or not is_text(content):
        return "its id or content is no text"
    try:
        message = new_message(orjson.loads(content), time_of(created_at))
    except orjson.JSONDecodeError as error:
        return f"its content is not JSON: {error}"
    except AgentRuntimeError as error:
        return error.message
    if message.id != message_id:
        return f"its content has the id {message.id!r}"
    return message


def _kept_parent(
    message_id: str,
    parents: dict[str, str | None],
    messages: dict[str, NewMessage],
    problems: list[ImportProblem],
) -> str | None:
    at, passed = parents[message_id], {message_id}
    while at is not None and at not in messages and at in parents and at not in passed:
        passed.add(at)
        at = parents[at]
    if at is None or at in messages:
        return at
    reason = f"its parent {at!r} is gone; it begins a tree of its own"
    problems.append(ImportProblem(MESSAGES, message_id, reason))
    return None


def _in_order(kept: dict[str, str | None], problems: list[ImportProblem]) -> list[str]:
    """Return ids with parents first, otherwise as they are; circles are opened in `kept`."""
    place = {message_id: number for number, message_id in enumerate(kept)}
    ids = list(kept)
    children: dict[str | None, list[int]] = defaultdict(list)
    for message_id, parent_id in kept.items():
        children[parent_id].append(place[message_id])
    order: list[str] = []
    waiting = dict.fromkeys(ids)
    ready = children[None]
    heapq.heapify(ready)
    while waiting:
        if not ready:
            ready.append(place[_open_circle(next(iter(waiting)), kept, place, problems)])
        message_id = ids[heapq.heappop(ready)]
        del waiting[message_id]
        order.append(message_id)
        for child in children[message_id]:
            # The one a circle was opened at is there already.
            if ids[child] in waiting:
                heapq.heappush(ready, child)
    return order


def _open_circle(
    message_id: str,
    kept: dict[str, str | None],
    place: dict[str, int],
    problems: list[ImportProblem],
) -> str:
    passed: dict[str, None] = {}
    at: str | None = message_id
    while at is not None and at not in passed:
        passed[at] = None
        at = kept[at]
    # Whoever still waits has ancestors that wait, without end.
    assert at is not None
    ancestors = list(passed)
    first = min(ancestors[ancestors.index(at) :], key=place.__getitem__)
    reason = f"it is its own ancestor, through {kept[first]!r}; it begins a tree of its own"
    problems.append(ImportProblem(MESSAGES, first, reason))
    kept[first] = None
    return first
