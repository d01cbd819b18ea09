"""Which rows of a path a reader sees: raw stretches and the summaries that stand for others.

A path is told by its lineage: for each branch it runs through, the depth down to which it follows
it. Messages have branch and depth as labels, so a path is a few ranges of an index, and all of this
is decided without reading a single message (contract 6.2, 20.2).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BranchRange:
    """Rows of one branch from one depth to another, both included."""

    branch: int
    first_depth: int
    last_depth: int


@dataclass(frozen=True, slots=True)
class Path:
    """The way from a root to a message.

    Args:
        session: The session's number.
        tree_version: Changes whenever labels of stored messages change.
        has_overlays: There are overlays in the session.
        ranges: One per branch, from the root down.
    """

    session: int
    tree_version: int
    has_overlays: bool
    total_bytes: int
    total_tokens: int
    ranges: tuple[BranchRange, ...]

    @property
    def length(self) -> int:
        """How many raw messages it has."""
        return self.ranges[-1].last_depth + 1 if self.ranges else 0

    def slice(self, first_depth: int, last_depth: int) -> list[BranchRange]:
        """Return the rows between two depths, both included."""
        found = []
        start = bisect_left(self.ranges, first_depth, key=lambda each: each.last_depth)
        for each in self.ranges[start:]:
            if each.first_depth > last_depth:
                break
            found.append(
                BranchRange(
                    each.branch,
                    max(each.first_depth, first_depth),
                    min(each.last_depth, last_depth),
                )
            )
        return found

    def holds(self, branch: int, depth: int) -> bool:
        """Tell whether a message with these labels is on the path."""
        at = bisect_left(self.ranges, depth, key=lambda each: each.last_depth)
        return at < len(self.ranges) and self.ranges[at].branch == branch


@dataclass(frozen=True, slots=True)
class PathPart:
    """Messages of a path between two depths, both included."""

    path: Path
    first_depth: int
    last_depth: int

    @property
    def length(self) -> int:
        """How many they are."""
        return self.last_depth - self.first_depth + 1


def path_of_lineage(
    session: int,
    tree_version: int,
    has_overlays: bool,
    sizes: tuple[int, int] | None,
    lineage: Sequence[tuple[int, int]],
) -> Path:
    """Build a path from its sizes and its (branch, last depth) pairs in any order."""
    ranges: list[BranchRange] = []
    first = 0
    for branch, depth in sorted(lineage, key=lambda pair: pair[1]):
        ranges.append(BranchRange(branch, first, depth))
        first = depth + 1
    total_bytes, total_tokens = sizes or (0, 0)
    return Path(session, tree_version, has_overlays, total_bytes, total_tokens, tuple(ranges))


@dataclass(frozen=True, slots=True)
class OverlayRange:
    """A stored overlay whose endpoints exist, by their labels.

    Args:
        ordinal: Grows with creation.
        tokens_before: Token estimates of the path above its first message.
        tokens_through: Those of the path down to its last message.
        tokens: Estimate of the summary as a message.
        is_superseded: A later one hides it on every path that holds that one's end.
    """

    ordinal: int
    first: tuple[int, int]
    last: tuple[int, int]
    tokens_before: int
    tokens_through: int
    tokens: int
    is_superseded: bool = False


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive depths of a path; with an overlay, its summary stands for them."""

    first_depth: int
    last_depth: int
    overlay: OverlayRange | None = None


def visible_stretches(
    path: Path, overlays: Sequence[OverlayRange], first_depth: int = 0
) -> list[Stretch]:
    """Return what a reader of the path sees from a depth on, in order.

    At each depth the overlay made last applies, of those that start there and end on the path.
    """
    starts: dict[int, OverlayRange] = {}
    for overlay in overlays:
        is_ordered = first_depth <= overlay.first[1] <= overlay.last[1]
        if is_ordered and path.holds(*overlay.first) and path.holds(*overlay.last):
            best = starts.get(overlay.first[1])
            if best is None or best.ordinal < overlay.ordinal:
                starts[overlay.first[1]] = overlay
    stretches: list[Stretch] = []
    depth = first_depth
    for start in sorted(starts):
        if start < depth:
            continue
        if depth < start:
            stretches.append(Stretch(depth, start - 1))
        overlay = starts[start]
        stretches.append(Stretch(start, overlay.last[1], overlay))
        depth = overlay.last[1] + 1
    if depth < path.length:
        stretches.append(Stretch(depth, path.length - 1))
    return stretches


def needs_superseded(path: Path, current: Sequence[OverlayRange]) -> bool:
    """Tell whether superseded overlays can show on the path.

    They do where the one that hides them starts on the path but ends beyond it.
    """
    return any(path.holds(*each.first) and not path.holds(*each.last) for each in current)


def visible_tokens(path: Path, overlays: Sequence[OverlayRange]) -> int:
    """Return the token estimate of what a reader of the whole path sees."""
    total = path.total_tokens
    for stretch in visible_stretches(path, overlays) if overlays else ():
        if stretch.overlay is not None:
            hidden = stretch.overlay.tokens_through - stretch.overlay.tokens_before
            total += stretch.overlay.tokens - hidden
    return total
