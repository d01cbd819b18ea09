"""What a provider's refusal means: one table from statuses and codes to errors.

What a provider says may quote prompts and keys, so none of it gets into an error: only statuses and
well-known codes do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from agent_runtime.errors import (
    ContextTooLongError,
    ErrorDetail,
    ModelAuthenticationError,
    ModelError,
    ModelRateLimitedError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from agent_runtime.json_value import Json
from agent_runtime.llm.retry_after import retry_after_seconds

_STATUS_OF_CODE: dict[str, int] = {
    "invalid_request_error": 400,
    "BadRequestError": 400,
    "content_policy_violation": 400,
    "context_length_exceeded": 400,
    "exceed_context_size_error": 400,
    "ContextWindowExceededError": 400,
    "string_above_max_length": 400,
    "unsupported_parameter": 400,
    "unsupported_value": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "NotFoundError": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "InternalServerError": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_CONTEXT_CODES = {
    "context_length_exceeded",
    "exceed_context_size_error",
    "ContextWindowExceededError",
    "request_too_large",
    "string_above_max_length",
}
_CONTEXT_TEXT = re.compile(
    r"""
    prompt\ (is\ )?too\ long
    | (input|request|prompt)\ (is\ )?too\ (long|large)
    | maximum\ (context|model|prompt)\ length
    | (exceed\w*|longer\ than|greater\ than)\b.{0,60}
      \b(context[ -]?(window|length|size|limit)|model\ token\ limit)
    | context[ -]?(window|length|size|limit)\b.{0,40}\bexceed
    | exceeds?\ the\ maximum\ number\ of\ (input\ )?tokens
    | reduce\ the\ length\ of\ the\ (messages|prompt|input)
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_LATER = (408, 409, 425, 429)
_NEVER_ABOUT_LENGTH = (401, 402, 403, 404, *_LATER)
_REQUEST_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)
_MAX_WORDS = 20
_UNKNOWN_STATUS = 500


def error_of_answer(
    model: str, status: int, headers: Mapping[str, str], body: Json, *, key_env: str | None = None
) -> ModelError:
    """Return the error that an HTTP answer stands for.

    Args:
        headers: By name in small letters.
        body: JSON, or the text if it is none.
        key_env: The variable that holds the key, for the message.
    """
    return _error(model, status, headers, body, key_env)


def error_of_body(model: str, body: Json) -> ModelError:
    """Return the error that is told within a successful answer or a stream.

    It has no status of its own; a known code stands in for one, and an unknown one passes for a
    trouble of the provider's.
    """
    words = list(_words(body))
    codes = [word for word in words if word in _STATUS_OF_CODE]
    numbers = [int(word) for word in words if re.fullmatch(r"[45]\d\d", word)]
    status = numbers[0] if numbers else _STATUS_OF_CODE[codes[0]] if codes else _UNKNOWN_STATUS
    return _error(model, status, {}, body, None)


def _error(
    model: str, status: int, headers: Mapping[str, str], body: Json, key_env: str | None
) -> ModelError:
    words = list(_words(body))
    code = next((word for word in words if word in _STATUS_OF_CODE), None)
    details: dict[str, ErrorDetail] = {"model": model, "status": status}
    if code:
        details["code"] = code
    request_id = headers.get("x-request-id") or headers.get("request-id") or ""
    if _REQUEST_ID.fullmatch(request_id):
        details["request_id"] = request_id
    said = f"the provider of model {model} answered {status}" + (f" ({code})" if code else "")

    if _is_about_length(status, words):
        return ContextTooLongError(
            f"{said}: the request is longer than the model can read; shorten or split it", **details
        )
    if status in _LATER or status >= 500:
        seconds = retry_after_seconds(headers)
        if seconds is not None:
            details["retry_after_seconds"] = seconds
        if status == 429:
            return ModelRateLimitedError(
                f"{said}: too much was asked of it, or the quota is used up; try again later",
                **details,
            )
        if status in (408, 504):
            return ModelTimeoutError(f"{said}: it took too long; try again later", **details)
        return ModelUnavailableError(f"{said}: it is out of order; try again later", **details)
    if status in (401, 403):
        key = f"the key in {key_env}" if key_env else "the key (api_key_env names its variable)"
        return ModelAuthenticationError(f"{said}: check {key} and what it allows", **details)
    return ModelRequestError(
        f"{said}: correct the request or the model's configuration; what the provider said is "
        "logged at level debug",
        **details,
    )


def _is_about_length(status: int, words: list[str]) -> bool:
    if status == 413:
        return True
    if status in _NEVER_ABOUT_LENGTH:
        return False
    return any(word in _CONTEXT_CODES or _CONTEXT_TEXT.search(word[:2_000]) for word in words)


def _words(body: Json) -> Iterator[str]:
    # Providers wrap what they say in many ways; prompts that they quote back stand elsewhere.
    pending: list[Json] = [body]
    told = 0
    while pending and told < _MAX_WORDS:
        item = pending.pop(0)
        if isinstance(item, dict):
            keys = ("error", "errors", "code", "type", "message", "detail")
            pending.extend(item[key] for key in keys if key in item)
        elif isinstance(item, list):
            pending.extend(item[:_MAX_WORDS])
        elif isinstance(item, str) or (isinstance(item, int) and not isinstance(item, bool)):
            told += 1
            yield str(item)
