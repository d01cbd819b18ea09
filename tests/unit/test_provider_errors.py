"""One table: statuses, codes and texts of providers, and the errors that they stand for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.errors import (
    ContextTooLongError,
    ModelAuthenticationError,
    ModelError,
    ModelRateLimitedError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from agent_runtime.json_value import Json
from agent_runtime.llm.provider_errors import error_of_answer, error_of_body
from agent_runtime.llm.retry_after import MAX_RETRY_AFTER_SECONDS, retry_after_seconds
from tests.support.json_values import json_values

STATUSES: dict[int, type[ModelError]] = {
    302: ModelRequestError,
    400: ModelRequestError,
    401: ModelAuthenticationError,
    402: ModelRequestError,
    403: ModelAuthenticationError,
    404: ModelRequestError,
    408: ModelTimeoutError,
    409: ModelUnavailableError,
    413: ContextTooLongError,
    422: ModelRequestError,
    425: ModelUnavailableError,
    429: ModelRateLimitedError,
    500: ModelUnavailableError,
    502: ModelUnavailableError,
    503: ModelUnavailableError,
    504: ModelTimeoutError,
    520: ModelUnavailableError,
    529: ModelUnavailableError,
}


@pytest.mark.parametrize(("status", "kind"), STATUSES.items())
def test_a_status_has_its_error(status: int, kind: type[ModelError]) -> None:
    """Later statuses are retried, all others are final; the message tells status and model."""
    error = error_of_answer("m-1", status, {}, None)

    assert type(error) is kind
    assert error.is_retryable is (status in (408, 409, 425, 429) or status >= 500)
    assert "m-1" in error.message
    assert str(status) in error.message


TOO_LONG: list[Json] = [
    {"error": {"message": "?", "code": "context_length_exceeded"}},
    {"error": {"message": "This model's maximum context length is 8192 tokens. However, ..."}},
    {"error": {"message": "Your input exceeds the context window of this model."}},
    {"error": {"code": 400, "message": "request exceeds the available context size"}},
    {"error": {"type": "exceed_context_size_error", "message": "?"}},
    {"type": "error", "error": {"type": "invalid_request_error",
     "message": "prompt is too long: 210000 tokens > 200000 maximum"}},
    {"type": "error", "error": {"type": "invalid_request_error",
     "message": "input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000"}},
    {"type": "error", "error": {"type": "request_too_large", "message": "?"}},
    {"object": "error", "message": "The maximum context length is 4096.", "code": 400},
    {"error": "prompt too long; exceeded max context length by 12 tokens"},
    {"error": {"message": "The input token count (1200000) exceeds the maximum number of tokens "
     "allowed (1048576)."}},
    {"error": {"message": "Input is too long for requested model."}},
    {"error": {"message": "Please reduce the length of the messages or completion."}},
    {"error": {"message": "Context Window exceeded for given call."}},
    {"error": {"message": "This model's maximum prompt length is 131072 but the request has more"}},
    {"error": {"message": "Your request exceeded model token limit: 8192"}},
    {"errors": [{"message": "AiError: The estimated number of input and maximum output tokens "
     "(26214) exceeded this model context window limit (24000).", "code": 5021}]},
    {"detail": "the prompt is longer than the maximum model length of 4096"},
    "tokens to keep from the initial prompt is greater than the context length",
]  # fmt: skip


@pytest.mark.parametrize("body", TOO_LONG)
def test_too_long_a_request_is_recognised(body: Json) -> None:
    """Whichever provider says so; also within a stream."""
    assert type(error_of_answer("m", 400, {}, body)) is ContextTooLongError
    assert type(error_of_body("m", body)) is ContextTooLongError


@pytest.mark.parametrize("status", [401, 403, 404, 408, 429])
@pytest.mark.parametrize("body", TOO_LONG[:3])
def test_other_statuses_are_not_about_length(status: int, body: Json) -> None:
    """A rate limit in tokens must not make anybody shorten a history."""
    assert type(error_of_answer("m", status, {}, body)) is STATUSES[status]


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "max_tokens is too large: 100000. This model supports 16384"}},
        {"error": {"message": "Too many tokens, please wait before trying again."}},
        {"error": {"message": "temperature exceeds the model limit"}},
        {"detail": [{"msg": "wrong", "input": "maximum context length"}]},
        {"error": {"message": "wrong", "param": "prompt is too long"}},
        {"prompt": "maximum context length"},
        None,
        True,
        7,
    ],
)
def test_what_only_sounds_alike_is_not_about_length(body: Json) -> None:
    """Above all not what was quoted from the request."""
    assert type(error_of_answer("m", 400, {}, body)) is ModelRequestError


CODES: list[tuple[Json, type[ModelError]]] = [
    ({"error": {"type": "overloaded_error"}}, ModelUnavailableError),
    ({"error": {"type": "rate_limit_error"}}, ModelRateLimitedError),
    ({"error": {"type": "authentication_error"}}, ModelAuthenticationError),
    ({"error": {"type": "invalid_request_error"}}, ModelRequestError),
    ({"error": {"type": "timeout_error"}}, ModelTimeoutError),
    ({"error": {"code": 503, "type": "invalid_request_error"}}, ModelUnavailableError),
    ({"error": {"code": "429"}}, ModelRateLimitedError),
    ({"error": {"code": True}}, ModelUnavailableError),
    ({"error": "something broke"}, ModelUnavailableError),
    (None, ModelUnavailableError),
]


@pytest.mark.parametrize(("body", "kind"), CODES)
def test_an_error_without_a_status_goes_by_its_code(body: Json, kind: type[ModelError]) -> None:
    """Within streams and successful answers; an unknown one is worth another try."""
    assert type(error_of_body("m", body)) is kind


@given(body=json_values, status=st.integers(100, 999))
def test_no_body_breaks_the_table(body: Json, status: int) -> None:
    """Whatever a stranger says, the outcome is an error of ours without a word of it."""
    for error in (error_of_answer("m", status, {}, body), error_of_body("m", body)):
        assert isinstance(error, ModelError)
        assert set(error.details_map) <= {"model", "status", "code"}


def test_known_codes_are_told() -> None:
    """They help and cannot hold secrets; others are left out."""
    known = error_of_answer("m", 429, {}, {"error": {"code": "insufficient_quota"}})
    unknown = error_of_answer("m", 429, {}, {"error": {"code": "sk-secret"}})

    assert (known.details_map["code"], "insufficient_quota" in known.message) == (
        "insufficient_quota",
        True,
    )
    assert "code" not in unknown.details_map
    assert "sk-secret" not in unknown.message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "3"}, 3.0),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "999999999999"}, MAX_RETRY_AFTER_SECONDS),
        ({"retry-after": "Wed, 99 Foo 2030 99:99:99 GMT"}, None),
        ({"retry-after": "Tue, 01 Jan 999999999 00:00:00 GMT"}, None),
        ({"retry-after": "Tue, 01 Jan 2030 00:01:00 GMT", "date": "Tue, 01 Jan 2030 00:00:00 GMT"},
         60.0),
        ({"retry-after": "Tue, 01 Jan 2030 00:00:00 GMT", "date": "Tue, 01 Jan 2030 00:01:00 GMT"},
         None),
    ],
)  # fmt: skip
def test_the_wait_is_what_the_headers_say(headers: dict[str, str], seconds: float | None) -> None:
    """Seconds, milliseconds or a date; at most an hour; nonsense is no wait."""
    assert retry_after_seconds(headers) == seconds


def test_a_date_counts_from_now_without_a_date_of_the_answer() -> None:
    """By this machine's clock."""
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)

    seconds = retry_after_seconds({"retry-after": date, "date": "nonsense"})

    assert seconds is not None
    assert 90 < seconds <= 100


@given(text=st.text(), other=st.text())
def test_no_header_breaks_the_wait(text: str, other: str) -> None:
    """Any text is a wait or none."""
    seconds = retry_after_seconds({"retry-after": text, "retry-after-ms": other, "date": text})

    assert seconds is None or 0 < seconds <= MAX_RETRY_AFTER_SECONDS
