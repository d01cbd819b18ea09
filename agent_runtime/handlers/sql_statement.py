"""What a statement of an agent's own SQL may be, and whether it writes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from agent_runtime.errors import SqlError
from agent_runtime.json_value import Json

_READING = re.compile(r"\s*(select|values|explain|pragma)\b", re.IGNORECASE)
_FORBIDDEN = re.compile(
    r"\s*(attach|detach|begin|commit|end|rollback|savepoint|release)\b", re.IGNORECASE
)
_WITH = re.compile(r"\s*with\b", re.IGNORECASE)
_WRITING_WORD = re.compile(r"\b(insert|update|delete|replace|merge)\b", re.IGNORECASE)
_COMMENT = re.compile(r"\s*(--[^\n]*(\n|$)|/\*.*?\*/)", re.DOTALL)


def is_writing(query: str) -> bool:
    """Tell whether a statement may write; one that only might counts as writing.

    Raises:
        SqlError: It would begin or end a transaction, or reach another database.
    """
    text = query
    while comment := _COMMENT.match(text):
        text = text[comment.end() :]
    if _FORBIDDEN.match(text):
        raise SqlError(
            "SQL query failed: each statement commits by itself, in the agent's own database; "
            "transactions and ATTACH are not available",
            query=query,
        )
    if _READING.match(text):
        return False
    return not _WITH.match(text) or _WRITING_WORD.search(text) is not None


def check_params(query: str, params: Sequence[Json]) -> None:
    """Refuse values that cannot be bound.

    Raises:
        SqlError: One is no None, bool, int, finite float, str or bytes.
    """
    for index, param in enumerate(params):
        is_number = isinstance(param, int) or (isinstance(param, float) and math.isfinite(param))
        if param is not None and not is_number and not isinstance(param, (str, bytes)):
            raise SqlError(
                f"SQL query failed: value {index + 1} is {param!r:.60}; bind None, bool, int, "
                "float, str or bytes, and write objects as JSON text",
                query=query,
            )
