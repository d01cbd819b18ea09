"""A message with its place in the tree, as tree views and exports show it."""

from __future__ import annotations

from dataclasses import dataclass

from agent_runtime.session.message import Message


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A stored message of any branch.

    Args:
        seq: Counts the session's messages in the order they came in.
        parent_seq: The parent's `seq`, None for a root.
        depth: How many messages are above it.
        bytes: Its stored size.
        tokens: Its token estimate.
        created_at: When it was stored, ISO-8601 in UTC.
        message: The message; None if what is stored is none.
    """

    seq: int
    parent_seq: int | None
    id: str
    role: str
    depth: int
    bytes: int
    tokens: int
    created_at: str
    message: Message | None
