"""What is stored of a conversation, row by row, read by asking the agent's worker.

For what shows a session as it is stored, such as an export.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict

from agent_runtime.client.session_page import Ask, answer, ask_items, ask_value
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.storage.session_protocol import (
    ContextRow,
    EntryRow,
    OverlayRow,
    PromptRow,
    RecordRow,
    SessionReads,
    SessionRef,
    TreeRow,
)


class RemoteSessionReads:
    """The part of `SessionReads` that an export needs."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def tree(self, ref: SessionRef, after: int, limit: int) -> list[TreeRow]:
        """See `SessionReads.tree`."""
        rows = await ask_items(self._ask, _request("tree", ref.session_id, after, limit))
        return [TreeRow(**row) for row in rows]

    async def overlays(self, ref: SessionRef) -> list[OverlayRow]:
        """See `SessionReads.overlays`."""
        rows = await ask_items(self._ask, _request("overlays", ref.session_id))
        return [OverlayRow(**row) for row in rows]

    async def context_labels(self, ref: SessionRef) -> list[str]:
        """See `SessionReads.context_labels`."""
        return await ask_items(self._ask, _request("context_labels", ref.session_id))

    async def context(self, ref: SessionRef, label: str) -> ContextRow | None:
        """See `SessionReads.context`."""
        row = await ask_value(self._ask, _request("context", ref.session_id, label))
        return None if row is None else ContextRow(**row)

    async def entries(self, agent: AgentRef, name: str) -> list[EntryRow]:
        """See `SessionReads.entries`."""
        rows = await ask_items(self._ask, _request("entries", "", name))
        return [EntryRow(**row) for row in rows]

    async def prompt(self, ref: SessionRef) -> PromptRow | None:
        """See `SessionReads.prompt`."""
        row = await ask_value(self._ask, _request("prompt", ref.session_id))
        return None if row is None else PromptRow(**row)

    async def record(self, ref: SessionRef) -> RecordRow | None:
        """See `SessionReads.record`."""
        row = await ask_value(self._ask, _request("record", ref.session_id))
        return None if row is None else RecordRow(**row)


async def answer_rows_query(reads: SessionReads, agent: AgentRef, fields: dict[str, Json]) -> Json:
    """Answer what `RemoteSessionReads` asks."""
    ref = SessionRef(agent, fields["session"])
    return answer(await _READS[fields["method"]](reads, ref, fields["args"]), fields["start"])


def _request(method: str, session_id: str, *args: Json) -> dict[str, Json]:
    return {"read": "rows", "session": session_id, "method": method, "args": list(args)}


_Read = Callable[[SessionReads, SessionRef, list[Json]], Awaitable[Json]]


async def _tree(reads: SessionReads, ref: SessionRef, args: list[Json]) -> Json:
    return [asdict(row) for row in await reads.tree(ref, *args)]


async def _overlays(reads: SessionReads, ref: SessionRef, args: list[Json]) -> Json:
    return [asdict(row) for row in await reads.overlays(ref)]


async def _context_labels(reads: SessionReads, ref: SessionRef, args: list[Json]) -> Json:
    return await reads.context_labels(ref)


async def _context(reads: SessionReads, ref: SessionRef, args: list[Json]) -> Json:
    row = await reads.context(ref, *args)
    return None if row is None else asdict(row)


async def _entries(reads: SessionReads, ref: SessionRef, args: list[Json]) -> Json:
    return [asdict(row) for row in await reads.entries(ref.agent, *args)]


async def _prompt(reads: SessionReads, ref: SessionRef, args: list[Json]) -> Json:
    row = await reads.prompt(ref)
    return None if row is None else asdict(row)


async def _record(reads: SessionReads, ref: SessionRef, args: list[Json]) -> Json:
    row = await reads.record(ref)
    return None if row is None else asdict(row)


_READS: dict[str, _Read] = {
    "tree": _tree,
    "overlays": _overlays,
    "context_labels": _context_labels,
    "context": _context,
    "entries": _entries,
    "prompt": _prompt,
    "record": _record,
}
