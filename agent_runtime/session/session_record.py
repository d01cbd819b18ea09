"""What the registry knows of a session (contract 19.2)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta

from agent_runtime.errors import InvalidRequestError
from agent_runtime.json_value import Json
from agent_runtime.session.stored_session import iso_time
from agent_runtime.storage.session_protocol import RecordRow

_START = datetime(1970, 1, 1, tzinfo=UTC)


def checked_name(name: object) -> str:
    """Return a session's name.

    Raises:
        InvalidRequestError: It is no text.
    """
    if not isinstance(name, str):
        raise InvalidRequestError(f"a session's name is a text, not {type(name).__name__}")
    return name


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A registered session.

    Args:
        name: For people; need not be unique.
        parent_session_id: The session it was forked or split from.
        model: The model it is meant for, as the program calls it.
        source: Where it came from, as the program calls it.
        estimated_cost: In whatever currency the program counts.
        end_reason: `compaction` once it was split; None while it goes on.
        created_at: ISO-8601 in UTC with milliseconds and `Z`.
        updated_at: Of the last change of the record or of the messages, in the same form.
    """

    id: str
    name: str
    parent_session_id: str | None
    model: str | None
    source: str | None
    input_tokens: int
    output_tokens: int
    estimated_cost: float
    end_reason: str | None
    created_at: str
    updated_at: str

    def to_json(self) -> dict[str, Json]:
        """Return the record as a JSON object under these names."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def session_record(row: RecordRow) -> SessionRecord:
    """Return a stored record as the public one."""
    return SessionRecord(
        id=row.id,
        name=row.name,
        parent_session_id=row.parent_session_id,
        model=row.model,
        source=row.source,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        estimated_cost=row.estimated_cost,
        end_reason=row.end_reason,
        created_at=iso_time(row.created_at),
        updated_at=iso_time(row.updated_at),
    )


def milliseconds_of(text: str) -> int:
    """Return an ISO-8601 time, in UTC unless it says otherwise, as milliseconds since 1970.

    Raises:
        ValueError: It is no such time.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _START) // timedelta(milliseconds=1)
