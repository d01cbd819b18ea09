"""How much a session's counters of usage take."""

from __future__ import annotations

import math

from agent_runtime.errors import InvalidRequestError
from agent_runtime.json_value import Json
from agent_runtime.storage.session_protocol import RecordRow

MAX_TOKENS = 2**53
"""Programs of other languages read whole numbers exactly up to here."""

MAX_COST = 1e15


def check_usage(input_tokens: Json, output_tokens: Json, cost: Json) -> None:
    """Refuse what is no usage; negative numbers correct an earlier one.

    Raises:
        InvalidRequestError: Tokens are no whole numbers or beyond 2**53, or the cost is no finite
            number or beyond 10**15.
    """
    for tokens in (input_tokens, output_tokens):
        if isinstance(tokens, bool) or not isinstance(tokens, int) or abs(tokens) > MAX_TOKENS:
            raise InvalidRequestError(
                f"{tokens!r:.40} is no number of tokens; give a whole one of up to 2**53 in all"
            )
    is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
    if not is_number or not math.isfinite(cost) or abs(cost) > MAX_COST:
        raise InvalidRequestError(f"{cost!r:.40} is no cost; give a number of up to 10**15 in all")


def check_sums(row: RecordRow | None, input_tokens: int, output_tokens: int, cost: float) -> None:
    """Refuse usage with which a session's counters would pass the same bounds.

    Raises:
        InvalidRequestError: They would.
    """
    if row is not None:
        check_usage(
            row.input_tokens + input_tokens,
            row.output_tokens + output_tokens,
            row.estimated_cost + cost,
        )
