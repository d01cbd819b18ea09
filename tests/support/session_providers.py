"""Stores of messages in memory, as somebody might write their own."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import orjson

from agent_runtime.session.message import COMPACTION_PREFIX, Message
from agent_runtime.session.session_provider import (
    AUTO,
    AppendResult,
    Compaction,
    Parent,
    RecentHistory,
    RowStats,
    SearchHit,
)


class PlainMessages:
    """The operations that every store must have, all of them sync; counts what is read."""

    def __init__(self) -> None:
        self.messages: dict[str, Message] = {}
        self.parents: dict[str, str | None] = {}
        self.overlays: list[Compaction] = []
        self.head: str | None = None
        self.reads: Counter[str] = Counter()
        self.overlay_error: Exception | None = None

    def get_message(self, message_id: str) -> Message | None:
        """Return a message."""
        self.reads["single"] += 1
        return self.messages.get(message_id)

    def get_history(self, leaf_id: str | None = None) -> list[Message]:
        """Return a path, summaries in place of what they stand for."""
        self.reads["full"] += 1
        path = self._path(leaf_id)
        places = {message["id"]: index for index, message in enumerate(path)}
        found: list[Message] = []
        at = 0
        while at < len(path):
            ends = [
                (places[each.to_message_id], each)
                for each in self.overlays
                if each.from_message_id == path[at]["id"]
                and places.get(each.to_message_id, -1) >= at
            ]
            found.append(_summary(ends[-1][1]) if ends else path[at])
            at = ends[-1][0] + 1 if ends else at + 1
        return found

    def get_latest_leaf(self) -> Message | None:
        """Return the newest message that has no child."""
        return self.messages[self.head] if self.head is not None else None

    def get_branches(self, message_id: str) -> list[Message]:
        """Return the children."""
        return [self.messages[id] for id, parent in self.parents.items() if parent == message_id]

    def get_path_length(self, leaf_id: str | None = None) -> int:
        """Count a path."""
        return len(self._path(leaf_id))

    def append_message(self, message: Message, parent_id: Parent = AUTO) -> AppendResult:
        """Add a message unless it is there."""
        if message["id"] in self.messages:
            return AppendResult(False, self.parents[message["id"]])
        parent = self.head if parent_id is AUTO else parent_id
        self.messages[message["id"]] = message
        self.parents[message["id"]] = parent
        self.head = message["id"]
        return AppendResult(True, parent)

    def update_message(self, message: Message) -> bool:
        """Replace a message."""
        if message["id"] not in self.messages:
            return False
        self.messages[message["id"]] = message
        return True

    def delete_messages(self, message_ids: Sequence[str]) -> None:
        """Remove messages, their children go to their parents."""
        for id in message_ids:
            if self.messages.pop(id, None) is None:
                continue
            parent = self.parents.pop(id)
            self.parents = {key: parent if at == id else at for key, at in self.parents.items()}
        leaves = [id for id in self.messages if id not in self.parents.values()]
        self.head = leaves[-1] if leaves else None

    def clear_messages(self) -> None:
        """Remove everything."""
        self.messages, self.parents, self.overlays, self.head = {}, {}, [], None

    def add_compaction(self, summary: str, from_message_id: str, to_message_id: str) -> Compaction:
        """Keep an overlay, or fail as told."""
        if self.overlay_error is not None:
            raise self.overlay_error
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        overlay = Compaction(uuid.uuid4().hex, summary, from_message_id, to_message_id, now)
        self.overlays.append(overlay)
        return overlay

    def get_compactions(self) -> list[Compaction]:
        """Return the overlays."""
        return self.overlays

    def _path(self, leaf_id: str | None) -> list[Message]:
        at = leaf_id or self.head
        path: list[Message] = []
        while at is not None and at in self.messages:
            path.append(self.messages[at])
            at = self.parents[at]
        return path[::-1]


class CapableMessages(PlainMessages):
    """The optional operations too, async ones."""

    async def get_recent_history(
        self, leaf_id: str | None, max_content_bytes: int, min_recent_messages: float = 1
    ) -> RecentHistory:
        """Return the last message only, whatever is asked for."""
        self.reads["recent"] += 1
        path = self._path(leaf_id)
        return RecentHistory(path[-1:], len(path) > 1, sum(map(_size, path)))

    async def get_history_row_stats(self, leaf_id: str | None = None) -> list[RowStats]:
        """Return the sizes of a path."""
        self.reads["stats"] += 1
        return [RowStats(each["id"], each["role"], _size(each)) for each in self._path(leaf_id)]

    async def search_messages(self, query: str, limit: int = 20) -> list[SearchHit]:
        """Find messages by a piece of their JSON."""
        found = [each for each in self.messages.values() if query in orjson.dumps(each).decode()]
        return [SearchHit(each["id"], each["role"], query) for each in found[:limit]]


def _summary(overlay: Compaction) -> Message:
    return {
        "id": COMPACTION_PREFIX + overlay.id,
        "role": "assistant",
        "parts": [{"type": "text", "text": overlay.summary}],
        "createdAt": overlay.created_at,
    }


def _size(message: Message) -> int:
    return len(orjson.dumps(message))
