"""Reading an agent's state and history: by whoever has the storage, and for queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agent_runtime.errors import InvalidRequestError
from agent_runtime.hosting.state_change import rebuild
from agent_runtime.identity import AgentRef, agent_ref
from agent_runtime.json_value import Json, from_json, pack
from agent_runtime.state import UNSET, parse_stored
from agent_runtime.storage.protocol import Storage

MAX_HISTORY = 1_000
MAX_ANSWER_BYTES = 2_000_000
"""A query's answer must stay under gRPC's 4 MB; who wants more asks again."""


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """An agent's state at one moment.

    Args:
        value: The JSON value; None if it was never set, or is null.
        version: Number of mutations ever applied; for `expected_version`.
        is_set: The state was set; tells null from never set.
    """

    value: Json
    version: int
    is_set: bool = True


@dataclass(frozen=True, slots=True)
class StateHistoryEntry:
    """One version of an agent's state.

    Args:
        kind: "set", "merge", "reset", "update" or "init".
        value: The whole state if `is_full`, else the top-level keys that changed; None once
            retention has dropped it.
        source: "server" or the id of a client connection.
        key: Idempotency key, None for an init.
    """

    version: int
    kind: str
    value: Json
    is_full: bool
    source: str
    key: str | None
    at: datetime


async def read_snapshot(storage: Storage, ref: AgentRef) -> StateSnapshot:
    """Return the present state; version 0 and not set for an unknown agent."""
    stored = await storage.read_state(ref)
    value = parse_stored(stored.state) if stored is not None else UNSET
    version = stored.version if stored is not None else 0
    return StateSnapshot(None if value is UNSET else value, version, value is not UNSET)


async def read_version(storage: Storage, ref: AgentRef, version: int) -> StateSnapshot:
    """Return an earlier state.

    Raises:
        InvalidRequestError: There is no such version, or it is kept no longer.
    """
    rows = await storage.read_version(ref, version)
    value = rebuild([(row.is_full, row.value) for row in rows])
    if value is UNSET or rows[-1].version != version:
        raise InvalidRequestError(
            f"{ref} has no state at version {version}, or it is kept no longer", version=version
        )
    return StateSnapshot(value, version)


async def read_history(
    storage: Storage, ref: AgentRef, *, newest: int | None, limit: int
) -> list[StateHistoryEntry]:
    """Return versions, newest first, from `newest` down."""
    return [
        StateHistoryEntry(
            row.version,
            row.kind,
            None if row.value is None else from_json(row.value),
            row.is_full,
            row.source,
            row.key,
            datetime.fromtimestamp(row.created_at / 1000, UTC),
        )
        for row in await storage.read_history(ref, newest=newest, limit=limit)
    ]


async def read_outcomes(
    storage: Storage, keys: Sequence[tuple[AgentRef, str]]
) -> dict[tuple[AgentRef, str], Json]:
    """Return the outcomes of those handler calls that have ended."""
    rows = await storage.read_invocations(keys)
    return {key: from_json(row.outcome) for key, row in rows.items() if row.outcome is not None}


async def answer_query(storage: Storage, agent: str, name: str, request: str) -> str:
    """Answer a read request that came as a query, JSON text for JSON text."""
    # A worker needs conversations, a client that never asks for one does not.
    from agent_runtime.client.remote_session_reads import answer_rows_query
    from agent_runtime.client.session_read import answer_session_query
    from agent_runtime.client.sessions_read import answer_sessions_query

    ref, fields = agent_ref(agent, name), from_json(request)
    if fields["read"] == "history":
        entries = await read_history(storage, ref, newest=fields["newest"], limit=fields["limit"])
        answer: Json = _fitting([_entry_fields(entry) for entry in entries])
    elif fields["read"] == "version":
        answer = _snapshot_fields(await read_version(storage, ref, fields["version"]))
    elif fields["read"] == "session":
        answer = await answer_session_query(storage, ref, fields)
    elif fields["read"] == "compaction":
        summaries = await storage.sessions.summaries(ref, fields["job"], fields["stage"])
        answer = sum(summary is not None for summary in summaries)
    elif fields["read"] == "sessions":
        answer = await answer_sessions_query(storage.sessions, ref, fields)
    elif fields["read"] == "rows":
        answer = await answer_rows_query(storage.sessions, ref, fields)
    elif fields["read"] == "outcomes":
        found = await read_outcomes(storage, [(ref, key) for key in fields["keys"]])
        # What has no room now is not ended yet for whoever asks; it asks again.
        fitting = _fitting([[key, outcome] for (_, key), outcome in found.items()])
        answer = dict(fitting)
    else:
        answer = _snapshot_fields(await read_snapshot(storage, ref))
    return pack(answer).decode()


def _fitting(entries: list[Json]) -> list[Json]:
    """Return the first entries, at least one, that an answer has room for."""
    size, count = 0, 0
    while count < len(entries):
        size += len(pack(entries[count]))
        if count and size > MAX_ANSWER_BYTES:
            break
        count += 1
    return entries[:count]


def open_snapshot(fields: dict[str, Any]) -> StateSnapshot:
    """Read a snapshot out of a query's answer."""
    return StateSnapshot(fields["value"], fields["version"], fields["is_set"])


def open_history(answer: list[dict[str, Any]]) -> list[StateHistoryEntry]:
    """Read history entries out of a query's answer."""
    return [
        StateHistoryEntry(**{**fields, "at": datetime.fromisoformat(fields["at"])})
        for fields in answer
    ]


def _snapshot_fields(snapshot: StateSnapshot) -> dict[str, Json]:
    return {"value": snapshot.value, "version": snapshot.version, "is_set": snapshot.is_set}


def _entry_fields(entry: StateHistoryEntry) -> dict[str, Json]:
    return {
        "version": entry.version,
        "kind": entry.kind,
        "value": entry.value,
        "is_full": entry.is_full,
        "source": entry.source,
        "key": entry.key,
        "at": entry.at.isoformat(),
    }
