"""How long a provider asks to be left alone."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER_SECONDS = 3_600.0
"""A provider that asks for more gets this; the caller's own limits end the matter."""


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the wait that an answer's headers ask for, or None if they ask for none.

    `retry-after-ms` goes before `Retry-After`, which is seconds or a date. A date counts from the
    answer's own `Date`, so that clocks may differ. What is malformed, past or zero asks for none.

    Args:
        headers: By name in small letters.
    """
    seconds = _number(headers.get("retry-after-ms"), 0.001)
    if seconds is None:
        text = headers.get("retry-after")
        seconds = _number(text, 1.0)
        if seconds is None and (date := _date(text)):
            now = _date(headers.get("date")) or datetime.now(UTC)
            seconds = (date - now).total_seconds()
    if seconds is None or seconds <= 0:
        return None
    return min(seconds, MAX_RETRY_AFTER_SECONDS)


def _number(text: str | None, unit: float) -> float | None:
    with contextlib.suppress(ValueError):
        number = float(text or "") * unit
        return number if math.isfinite(number) else None
    return None


def _date(text: str | None) -> datetime | None:
    # The parser raises more than it documents, such as OverflowError for years beyond all clocks.
    with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError):
        date = parsedate_to_datetime(text or "")
        return date if date.tzinfo else date.replace(tzinfo=UTC)
    return None
