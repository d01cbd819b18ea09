"""Which conversations an agent has, registered or not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agent_runtime.identity import AgentRef
from agent_runtime.session.session_record import SessionRecord, session_record
from agent_runtime.storage.session_protocol import SessionReads, SessionRef


@dataclass(frozen=True, slots=True)
class ListedSession:
    """A session that holds anything or is registered.

    Args:
        session_id: `""` for the default one.
        record: What the registry knows of it, None if it is not registered.
    """

    session_id: str
    record: SessionRecord | None


async def list_sessions(
    reads: SessionReads, agent: AgentRef, after: str | None, limit: int
) -> list[ListedSession]:
    """Return an agent's sessions in order of their ids, the default one first.

    Args:
        after: Only those behind this id.
        limit: At most so many.
    """
    stored, registered = await asyncio.gather(reads.session_ids(agent), reads.registered_ids(agent))
    known = {*registered}
    ids = [each for each in sorted({*stored, *known}) if after is None or each > after][:limit]
    return [
        ListedSession(
            each, await _record(reads, SessionRef(agent, each)) if each in known else None
        )
        for each in ids
    ]


async def _record(reads: SessionReads, ref: SessionRef) -> SessionRecord | None:
    row = await reads.record(ref)
    return None if row is None else session_record(row)
