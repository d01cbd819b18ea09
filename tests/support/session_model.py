"""What a session should hold, told in the plainest way: links from messages to their parents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class ModelMessage:
    """A message as it should be."""

    parent: str | None
    content: str
    tokens: int


@dataclass
class ModelOverlay:
    """A summary as it should be."""

    id: str
    first: str
    last: str
    tokens: int


@dataclass
class ModelSession:
    """One session: messages in order of their making, and overlays in order of theirs."""

    messages: dict[str, ModelMessage] = field(default_factory=dict)
    overlays: list[ModelOverlay] = field(default_factory=list)

    @property
    def leaf(self) -> str | None:
        """The latest leaf: nothing newer can be below the newest message."""
        return next(reversed(self.messages), None)

    def append(self, new: Sequence[tuple[str, ModelMessage]]) -> list[tuple[bool, str | None]]:
        """Append messages below one another; the first has its own parent."""
        results: list[tuple[bool, str | None]] = []
        parent = new[0][1].parent
        for id, message in new:
            is_new = id not in self.messages
            if is_new:
                known = parent if parent in self.messages else None
                self.messages[id] = ModelMessage(known, message.content, message.tokens)
            results.append((is_new, self.messages[id].parent))
            parent = id
        return results

    def delete(self, ids: Sequence[str]) -> set[str]:
        """Remove messages, splice their children and shrink overlays."""
        dead = {id for id in ids if id in self.messages}
        if dead:
            self.overlays = [each for each in self.overlays if self._keeps_overlay(each, dead)]
        for message in self.messages.values():
            while message.parent in dead:
                message.parent = self.messages[message.parent].parent
        for id in dead:
            del self.messages[id]
        return dead

    def path(self, leaf: str | None) -> list[str]:
        """Return ids from the root to a message, by default the latest leaf."""
        leaf = self.leaf if leaf is None else leaf
        found: list[str] = []
        at = leaf if leaf in self.messages else None
        while at is not None:
            found.append(at)
            at = self.messages[at].parent
        return found[::-1]

    def visible(self, leaf: str | None, first: int = 0) -> list[str | ModelOverlay]:
        """Return what a path shows from its `first` message on."""
        path = self.path(leaf)[first:]
        place = {id: number for number, id in enumerate(path)}
        shown: list[str | ModelOverlay] = []
        at = 0
        while at < len(path):
            best = None
            for each in self.overlays:
                if each.first == path[at] and place.get(each.last, -1) >= at:
                    best = each
            shown.append(best or path[at])
            at = place[best.last] + 1 if best else at + 1
        return shown

    def window(self, leaf: str | None, max_bytes: int, min_messages: int) -> int:
        """Return at which message of the path a reader with a budget begins."""
        path = self.path(leaf)
        total = 0
        for taken, id in enumerate(reversed(path)):
            total += self.size(id)
            if taken >= min_messages and total > max_bytes:
                return len(path) - taken
        return 0

    def size(self, id: str) -> int:
        """Return a message's stored size in bytes."""
        return len(self.messages[id].content.encode())

    def children(self, id: str) -> list[str]:
        """Return a message's children, oldest first."""
        return [each for each, message in self.messages.items() if message.parent == id]

    def _keeps_overlay(self, overlay: ModelOverlay, dead: set[str]) -> bool:
        if not dead & {overlay.first, overlay.last}:
            return True
        path = self.path(overlay.last) if overlay.last in self.messages else []
        if overlay.first not in path:
            return False
        left = [id for id in path[path.index(overlay.first) :] if id not in dead]
        if left:
            overlay.first, overlay.last = left[0], left[-1]
        return bool(left)
