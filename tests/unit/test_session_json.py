"""Names of conversations' fields in JSON."""

from __future__ import annotations

from typing import Any

import pytest

from agent_runtime.compaction.compact_context import CompactResult
from agent_runtime.session.context_block import ContextBlock
from agent_runtime.session.session_json import from_wire, to_wire
from agent_runtime.session.session_provider import (
    AppendResult,
    Compaction,
    RecentHistory,
    RowStats,
    SearchHit,
)
from agent_runtime.session.session_record import SessionRecord
from agent_runtime.session.tree_node import TreeNode

RECORD = SessionRecord("s", "n", None, "m", None, 1, 2, 0.5, None, "then", "now")
VALUES: dict[str, Any] = {
    "inserted parentId": AppendResult(True, "m0"),
    "id summary fromMessageId toMessageId createdAt": Compaction("c", "s", "m0", "m1", "then"),
    "fromMessageId toMessageId summary": CompactResult("m0", "m1", "s"),
    "messages truncated totalContentBytes": RecentHistory([{"id": "m0"}], True, 9),
    "id role bytes": RowStats("m0", "user", 9),
    "id role content createdAt sessionId": SearchHit("m0", "user", "text", None, ""),
    "label description content tokens maxTokens writable isSkill isSearchable available": (
        ContextBlock("memory", None, "tea", 1, 1100, True, False, False)
    ),
    "seq parentSeq id role depth bytes tokens createdAt message": (
        TreeNode(1, None, "m0", "user", 0, 9, 5, "then", None)
    ),
    "id name parentSessionId model source inputTokens outputTokens estimatedCost endReason "
    "createdAt updatedAt": RECORD,
}


@pytest.mark.parametrize(("names", "value"), VALUES.items())
def test_fields_have_the_reference_s_names_and_come_back(names: str, value: Any) -> None:
    """What is written is read; a name that is not known is left out."""
    written = to_wire(value)

    assert list(written) == names.split()
    assert from_wire(type(value), {**written, "newer": 1}) == value
