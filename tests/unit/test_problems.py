"""Errors as HTTP answers: fixed statuses, and nothing that only operators may know."""

from __future__ import annotations

from http import HTTPStatus

import orjson
import pytest

from agent_runtime.errors import (
    AgentRuntimeError,
    CallTimeoutError,
    HandlerError,
    InternalError,
    ModelUnavailableError,
    StateRejectedError,
    StorageCorruptError,
    StorageFullError,
    StorageUnavailableError,
    TemporalUnreachableError,
)
from agent_runtime.gateway.problems import problem_of, shown_record

SECRET = "/srv/secret/agents.db at 10.0.0.7"


@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [
        (StorageFullError, 507, "1"),
        (StorageUnavailableError, 503, "1"),
        (StorageCorruptError, 500, None),
        (TemporalUnreachableError, 503, "1"),
        (CallTimeoutError, 504, None),
        (InternalError, 500, None),
        (ModelUnavailableError, 503, None),
    ],
)
def test_what_operators_must_know_is_not_told(
    error: type[AgentRuntimeError], status: int, retry_after: str | None
) -> None:
    """The class's own sentence takes the place of message and details."""
    raised = error(SECRET, place=SECRET)
    answer = problem_of(raised)

    assert (answer.status_code, answer.headers.get("retry-after")) == (status, retry_after)
    assert SECRET.encode() not in bytes(answer.body)
    assert SECRET not in str(shown_record(raised))


@pytest.mark.parametrize(("error", "status"), [(StateRejectedError, 422), (HandlerError, 500)])
def test_what_the_author_said_is_told(error: type[AgentRuntimeError], status: int) -> None:
    """With the facts that a program can act on."""
    answer = problem_of(error("no luck", tries=3))

    assert orjson.loads(bytes(answer.body)) == {
        "type": f"urn:agent-runtime:problem:{error.__name__}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": "no luck",
        "details": {"tries": 3},
    }
