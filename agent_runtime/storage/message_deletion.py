"""Removing messages from the middle of a tree without tearing it (contract 4.5).

Children of a removed message go to its nearest surviving ancestor. Branches keep their numbers:
each loses some of its rows and closes the gaps, so the labels below a removed message shift by what
was removed above them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from agent_runtime.json_value import to_json
from agent_runtime.storage import message_statements as sql
from agent_runtime.storage.session_protocol import SessionRef
from agent_runtime.storage.session_rows import SessionRows

_BOTTOM = 2**62
_NONE = (0, 0, 0)

Label = tuple[int, int]
"""Branch and depth."""

Removed = tuple[int, int, int]
"""How many messages, bytes and tokens."""


@dataclass(frozen=True, slots=True)
class _Dead:
    number: int
    seq: int
    id: str
    parent_seq: int | None
    branch: int
    depth: int
    bytes: int
    tokens: int


async def delete_messages(
    rows: SessionRows, ref: SessionRef, session: int, message_ids: Sequence[str]
) -> list[str]:
    """Remove messages of a session and return the ids that were there."""
    wanted = to_json([[each] for each in set(message_ids)], what="the messages' ids").decode()
    dead = [_Dead(*row) for row in await rows.run(sql.FIND_DELETED, (wanted, session))]
    if not dead:
        return []
    await _move_overlays(rows, ref, session, {each.id for each in dead})
    numbers = [(each.number,) for each in dead]
    await rows.run_many(rows.dialect.delete_message_terms, numbers)
    await rows.run_many(sql.REPARENT, _adoptions(session, dead))
    await rows.run_many(sql.DELETE_MESSAGE, numbers)
    await _shift_labels(rows, session, dead)
    await rows.run(sql.RELABEL_SESSION, (session,))
    return [each.id for each in dead]


def _adoptions(session: int, dead: Sequence[_Dead]) -> list[tuple[int | None, int, int]]:
    survivor_of: dict[int, int | None] = {}
    # A parent's seq is smaller, so its own survivor is known first.
    for each in sorted(dead, key=lambda one: one.seq):
        parent = each.parent_seq
        survivor_of[each.seq] = survivor_of.get(parent, parent) if parent is not None else None
    return [(survivor, session, seq) for seq, survivor in survivor_of.items()]


async def _shift_labels(rows: SessionRows, session: int, dead: Sequence[_Dead]) -> None:
    by_branch: dict[int, list[_Dead]] = defaultdict(list)
    for each in sorted(dead, key=lambda one: one.depth):
        by_branch[each.branch].append(each)
    tops = orjson.dumps([[branch, some[0].depth] for branch, some in by_branch.items()]).decode()
    hangs = {
        branch: (parent, depth)
        for branch, parent, depth in await rows.run(
            sql.READ_BRANCHES_BELOW, (tops, session, session)
        )
    }
    tree = _Tree(hangs)
    shifts: list[tuple[int, ...]] = []
    moves: list[tuple[int, int, int, int]] = []
    roots: list[tuple[int, int]] = []
    # A branch is younger than the one it hangs from.
    for branch in sorted({*hangs, *by_branch}):
        tree.add(branch, by_branch.get(branch, ()))
        for removed, first, last in tree.stretches(branch):
            shifts.append((*removed, session, branch, first, last))
        hang = hangs.get(branch)
        if hang is None:
            continue
        support = tree.survivor(*hang)
        if support is None:
            roots.append((session, branch))
        elif (moved := (support[0], support[1] - tree.removed_through(*support)[0])) != hang:
            moves.append((*moved, session, branch))
    await rows.run_many(sql.SHIFT_LABELS, shifts)
    await rows.run_many(sql.HANG_BRANCH, moves)
    await rows.run_many(sql.DELETE_BRANCH, roots)


@dataclass(slots=True)
class _Branch:
    """What a branch loses: depths in order, and sums through each of them.

    Args:
        base: What was removed above its first row.
        top: The nearest survivor above its first row.
    """

    first_depth: int
    base: Removed
    top: Label | None
    depths: list[int] = field(default_factory=list)
    sums: list[Removed] = field(default_factory=list)


class _Tree:
    """Answers what is removed above a label, by the labels as they were."""

    def __init__(self, hangs: dict[int, Label]) -> None:
        self._hangs = hangs
        self._branches: dict[int, _Branch] = {}

    def add(self, number: int, dead: Sequence[_Dead]) -> None:
        hang = self._hangs.get(number)
        if hang is None:
            branch = _Branch(0, _NONE, None)
        else:
            branch = _Branch(hang[1] + 1, self.removed_through(*hang), self.survivor(*hang))
        total = branch.base
        for each in dead:
            total = (total[0] + 1, total[1] + each.bytes, total[2] + each.tokens)
            branch.depths.append(each.depth)
            branch.sums.append(total)
        self._branches[number] = branch

    def removed_through(self, number: int, depth: int) -> Removed:
        branch = self._branches.get(number)
        if branch is None:
            return _NONE
        at = bisect_right(branch.depths, depth)
        return branch.sums[at - 1] if at else branch.base

    def survivor(self, number: int, depth: int) -> Label | None:
        branch = self._branches.get(number)
        if branch is None:
            return number, depth
        at = bisect_right(branch.depths, depth) - 1
        while at >= 0 and branch.depths[at] == depth:
            depth -= 1
            at -= 1
        return (number, depth) if depth >= branch.first_depth else branch.top

    def stretches(self, number: int) -> list[tuple[Removed, int, int]]:
        """Return surviving rows that shift: by how much, from which depth to which."""
        branch = self._branches[number]
        found = []
        first, removed = branch.first_depth, branch.base
        for depth, total in zip(branch.depths, branch.sums, strict=True):
            if removed != _NONE and first < depth:
                found.append((removed, first, depth - 1))
            first, removed = depth + 1, total
        if removed != _NONE:
            found.append((removed, first, _BOTTOM))
        return found


async def _move_overlays(
    rows: SessionRows, ref: SessionRef, session: int, dead_ids: set[str]
) -> None:
    ids = orjson.dumps([[each] for each in dead_ids]).decode()
    for ordinal, from_id, to_id in await rows.run(sql.OVERLAYS_AT, (ids, session, ids, session)):
        left = [each for each in await _covered(rows, ref, from_id, to_id) if each not in dead_ids]
        if left:
            await rows.run(sql.MOVE_OVERLAY, (left[0], left[-1], ordinal))
        else:
            await rows.run(sql.DELETE_OVERLAY, (ordinal,))


async def _covered(rows: SessionRows, ref: SessionRef, from_id: str, to_id: str) -> list[str]:
    """Return the ids from one message down to another; empty if they are on no one path."""
    path = await rows.path_to(ref, to_id)
    if path is None:
        return []
    wanted = orjson.dumps([[from_id]]).decode()
    for row in await rows.run(sql.FIND_NODES, (wanted, path.session)):
        branch, depth = row[2], row[3]
        if not path.holds(branch, depth):
            return []
        ranges = [
            [each.branch, each.first_depth, each.last_depth]
            for each in path.slice(depth, path.length - 1)
        ]
        found = await rows.run(
            sql.READ_IDS,
            (orjson.dumps(ranges).decode(), path.session, path.session, path.tree_version),
        )
        return [each[1] for each in sorted(found)]
    return []
