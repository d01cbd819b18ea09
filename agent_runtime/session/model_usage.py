"""What language models have cost an agent's conversations, day by day."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

from agent_runtime.errors import InvalidRequestError
from agent_runtime.storage.session_protocol import DayUsageRow

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_START = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The calls of one model for one session, day and purpose.

    Args:
        session_id: `""` for the default one.
        day: ISO-8601, of UTC, as `2026-11-30`.
        purpose: `generate` for turns, `compaction` for summaries.
        cost: In the currency of the models' configuration.
    """

    session_id: str
    day: str
    model: str
    purpose: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float


def model_usage(row: DayUsageRow) -> ModelUsage:
    """Return a stored sum as the public one."""
    return ModelUsage(
        session_id=row.session_id,
        day=day_text(row.day),
        model=row.model,
        purpose=row.purpose,
        calls=row.calls,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cost=row.cost,
    )


def day_text(number: int) -> str:
    """Return the day so many days after the first of 1970, `2026-11-30`."""
    return (_START + timedelta(days=number)).isoformat()


def day_number(day: date) -> int:
    """Return how many days after the first of 1970 a day is."""
    return (day - _START).days


def day_of(text: str, what: str) -> date:
    """Return a day of ISO-8601, `2026-11-30`.

    Args:
        what: What the text is, for the error.

    Raises:
        InvalidRequestError: It is none.
    """
    try:
        if not _DAY.fullmatch(text):
            raise ValueError(text)
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidRequestError(f"{what} is a day like 2026-11-30, not {text!r:.80}") from None
