"""Statements with `?` for clients that number their placeholders themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_runtime.json_value import Json

_NUMBERED = re.compile(r"\$(\d+)")


def mark_placeholders(text: str, values: Sequence[Json]) -> tuple[str, list[Json]]:
    """Return a statement with `?` for each `$1…`, and the values in order of the marks."""
    numbers = [int(number) for number in _NUMBERED.findall(text)]
    return _NUMBERED.sub("?", text), [values[number - 1] for number in numbers]
