"""Errors over HTTP: RFC 9457 problem details, one fixed status for each kind of error."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import Response

from agent_runtime.errors import FOR_CLIENTS, AgentRuntimeError, ModelError, public_text
from agent_runtime.json_value import Json, pack

MEDIA_TYPE = "application/problem+json"

STATUS: dict[str, int] = {
    "AgentRuntimeError": 500,
    "InvalidRequestError": 400,
    "InvalidAgentError": 400,
    "UnknownAgentClassError": 404,
    "UnknownMethodError": 404,
    "MethodNotCallableError": 404,
    "NotSerializableError": 400,
    "StateTooLargeError": 413,
    "SqlError": 422,
    "SessionError": 400,
    "InvalidMessageError": 400,
    "MessageTooLargeError": 413,
    "UnknownMessageError": 404,
    "UnknownSessionError": 404,
    "InvalidCompactionError": 422,
    "InvalidSearchError": 400,
    "ContextBlockError": 422,
    "SessionSetupError": 422,
    "InvalidImportError": 422,
    "StateRejectedError": 422,
    "ReadonlyConnectionError": 403,
    "ClientViewError": 500,
    "ConflictError": 409,
    "VersionConflictError": 412,
    "IdempotencyConflictError": 422,
    "AgentDestroyedError": 409,
    "HandlerError": 500,
    "HandlerCancelledError": 409,
    "HandlerDivergedError": 500,
    "ExclusiveDeadlockError": 409,
    "HookLoopError": 500,
    "AgentStartError": 500,
    "UnavailableError": 503,
    "TemporalUnreachableError": 503,
    "CallTimeoutError": 504,
    "StorageError": 500,
    "StorageUnavailableError": 503,
    "StorageFullError": 507,
    "StorageReadOnlyError": 500,
    "StorageCorruptError": 500,
    "StorageSchemaError": 500,
    "ModelError": 502,
    "ModelUnavailableError": 503,
    "ModelRateLimitedError": 503,
    "ModelTimeoutError": 504,
    "ModelRequestError": 502,
    "ModelAuthenticationError": 502,
    "ContextTooLongError": 413,
    "ModelRefusedError": 422,
    "ModelResponseError": 502,
    "ConfigurationError": 500,
    "InternalError": 500,
}
"""The status of every error, by its stable type string."""

RETRY_AFTER_SECONDS = 1


def problem(
    status: int,
    kind: str,
    detail: str,
    *,
    details: Mapping[str, Json] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an answer that says what went wrong.

    Args:
        kind: Stable name of the kind of problem; an error's type, or a name of the gateway's own.
        details: Small facts that a program can act on.
    """
    fields: dict[str, Json] = {
        "type": f"urn:agent-runtime:problem:{kind}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    if details:
        fields["details"] = dict(details)
    return Response(pack(fields), status, headers, MEDIA_TYPE)


def problem_of(error: AgentRuntimeError) -> Response:
    """Return the answer for an error; what only operators may know is not in it."""
    kind = type(error).__name__
    status = STATUS[kind]
    # A model's error is what the call came to: the same request would be told it again.
    can_pass = status in (503, 507) and not isinstance(error, ModelError)
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if can_pass else {}
    details = error.details_map if isinstance(error, FOR_CLIENTS) else None
    return problem(status, kind, public_text(error), details=details, headers=headers)


def shown_record(error: AgentRuntimeError) -> dict[str, Json]:
    """Return an error as clients may read it: type, message and details."""
    record: dict[str, Json] = {"type": type(error).__name__, "message": public_text(error)}
    if error.details_map and isinstance(error, FOR_CLIENTS):
        record["details"] = dict(error.details_map)
    return record
