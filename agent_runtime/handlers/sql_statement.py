"""What a statement of an agent's own SQL may be, and whether it writes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from agent_runtime.errors import SqlError
from agent_runtime.json_value import Json

_READING = re.compile(r"(select|values|table|explain|with)\b", re.IGNORECASE)
_READING_PRAGMA = re.compile(
    r"""pragma\s+(\w+\s*\.\s*)?
    (
        (table_(x?info|list)|index_(x?info|list)|foreign_key_(list|check)|(integrity|quick)_check)
        \s*(\([^()]*\))?
        | application_id | collation_list | compile_options | data_version | database_list
        | encoding | foreign_keys | freelist_count | function_list | journal_mode | module_list
        | page_count | page_size | pragma_list | schema_version | user_version
    )\s*;?\s*$""",
    re.IGNORECASE | re.VERBOSE,
)
_FORBIDDEN = re.compile(
    r"(attach|detach|begin|start|commit|end|rollback|abort|savepoint|release|prepare\s+transaction)\b",
    re.IGNORECASE,
)
# `replace` is a function of texts too, and a statement only after common tables.
_WRITING_WORD = re.compile(
    r"\b(into|insert|update|delete|merge|analyze|nextval|setval)\b", re.IGNORECASE
)
_WRITING_AFTER_WITH = re.compile(r"with\b.*\breplace\b", re.IGNORECASE | re.DOTALL)
_BEFORE_ALL = re.compile(r"([\s;]+|--[^\n]*(\n|$)|/\*.*?\*/)+", re.DOTALL)


def is_writing(query: str) -> bool:
    """Tell whether a statement may write; one that only might counts as writing.

    What a function does that it calls is not to be seen here; PostgreSQL tells it.

    Raises:
        SqlError: It would begin or end a transaction, or reach another database.
    """
    before = _BEFORE_ALL.match(query)
    text = query if before is None else query[before.end() :]
    if _FORBIDDEN.match(text):
        raise SqlError(
            "SQL query failed: each statement commits by itself, in the agent's own database; "
            "transactions and ATTACH are not available",
            query=query,
        )
    if _READING.match(text):
        is_after_with = _WRITING_AFTER_WITH.match(text) is not None
        return is_after_with or _WRITING_WORD.search(text) is not None
    return _READING_PRAGMA.match(text) is None


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
