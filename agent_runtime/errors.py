"""Every error this library raises.

AgentRuntimeError
├── InvalidRequestError            the call can never succeed as written
│   ├── InvalidAgentError          empty, too long or malformed class or instance name
│   ├── UnknownAgentClassError     no worker knows a class of that name
│   ├── UnknownMethodError         the agent has no such method
│   ├── MethodNotCallableError     the method exists but is not marked @callable
│   ├── NotSerializableError       the value is not JSON (NaN, function, cycle, too deep ...)
│   ├── StateTooLargeError         the state would exceed the size limit
│   ├── SqlError                   the agent's own SQL failed
│   └── SessionError               a session cannot do what it was asked
│       ├── InvalidMessageError    no message, or an id that is kept for summaries
│       ├── MessageTooLargeError   the message would exceed the size limit
│       ├── UnknownMessageError    no message of that id in this session
│       ├── UnknownSessionError    no session of that id is registered
│       ├── InvalidCompactionError the range of a summary is on no path
│       ├── InvalidSearchError     a search without a text, or its limit is out of range
│       ├── ContextBlockError      the context block cannot be written or added
│       ├── SessionSetupError      the session's set-up is incomplete, wrong or too late
│       └── InvalidImportError     what is to be imported is not whole, or not welcome there
├── StateRejectedError             the state model or validate_state_change refused the value
│   └── ReadonlyConnectionError    the change was made for a connection that may only read
├── ClientViewError                client_view of the agent failed
├── ConflictError                  somebody else was first
│   ├── VersionConflictError       expected_version is not the present version
│   ├── IdempotencyConflictError   the key was used before with another payload
│   └── AgentDestroyedError        the agent was destroyed meanwhile
├── HandlerError                   a handler of the agent raised
│   ├── HandlerCancelledError      the call was cancelled before its handler finished
│   ├── HandlerDivergedError       a repeated handler asked for other effects than before
│   ├── ExclusiveDeadlockError     an exclusive handler waits for itself
│   ├── HookLoopError              on_state_changed keeps setting the state
│   └── AgentStartError            on_start raised
├── UnavailableError               try again later, with the same idempotency key
│   ├── TemporalUnreachableError   the Temporal server does not answer
│   └── CallTimeoutError           no answer within the caller's deadline
├── StorageError                   the database refused
│   ├── StorageUnavailableError    locked, closing or failing input/output
│   ├── StorageFullError           no space left
│   ├── StorageReadOnlyError       the data directory or the database cannot be written
│   ├── StorageCorruptError        the file is not a sound database
│   └── StorageSchemaError         the schema is newer, or waits for its migration
├── ModelError                     a language model gave no usable answer
│   ├── ModelUnavailableError      its provider is out of order or cannot be reached
│   │   ├── ModelRateLimitedError  too much was asked of it in too short a time
│   │   └── ModelTimeoutError      no whole answer within the deadline
│   ├── ModelRequestError          the provider refused the request as written
│   │   ├── ModelAuthenticationError   the key is missing, wrong or not allowed this
│   │   └── ContextTooLongError    the request is longer than the model can read
│   ├── ModelRefusedError          the provider withheld the answer
│   └── ModelResponseError         the answer is blank, reasoning only or malformed
├── ConfigurationError             a setting, module or address is wrong
└── InternalError                  a bug in this library

`type` strings (the class names) are a public contract: they travel through workflow histories and
are pinned by tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, ClassVar

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

MAX_TEXT = 2_000
"""Longer messages and details are cut."""

ErrorDetail = str | int | float | bool | None


class AgentRuntimeError(ApplicationError):
    """Base of all errors of this library; an `ApplicationError`, so it never wedges a workflow.

    Args:
        message: What happened and what to do.
        **details: Small facts a program can act on; shown in `details_map`.
    """

    is_retryable: ClassVar[bool] = False

    def __init__(self, message: str, **details: ErrorDetail) -> None:
        message = _bounded(message)
        details = {
            name: _bounded(detail) if isinstance(detail, str) else detail
            for name, detail in details.items()
        }
        super().__init__(
            message,
            *([details] if details else []),
            type=type(self).__name__,
            non_retryable=not self.is_retryable,
            # Said to the caller in full; not worth a traceback in the worker's log.
            category=ApplicationErrorCategory.BENIGN,
        )
        self.details_map: Mapping[str, ErrorDetail] = details

    def to_record(self) -> dict[str, Any]:
        """Return the error as JSON: `{"type", "message", "details"?}`."""
        record: dict[str, Any] = {"type": type(self).__name__, "message": self.message}
        if self.details_map:
            record["details"] = dict(self.details_map)
        return record


class InvalidRequestError(AgentRuntimeError):
    """The call can never succeed as written; correct it."""


class InvalidAgentError(InvalidRequestError):
    """The class or instance name is empty, too long or malformed."""


class UnknownAgentClassError(InvalidRequestError):
    """No worker knows a class of that name; check the spelling and the worker's modules."""


class UnknownMethodError(InvalidRequestError):
    """The agent has no such method."""


class MethodNotCallableError(InvalidRequestError):
    """The method exists but is not marked `@callable`."""


class NotSerializableError(InvalidRequestError):
    """The value is not JSON; the message names the place."""


class StateTooLargeError(InvalidRequestError):
    """The state would exceed the limit; keep bulk data in `self.sql` or a session."""


class SqlError(InvalidRequestError):
    """The agent's own SQL failed; the message holds the database's reason."""


class SessionError(InvalidRequestError, ValueError):
    """A session cannot do what it was asked; nothing was stored."""


class InvalidMessageError(SessionError):
    """The message has no string id and role, no list of parts, or an id kept for summaries."""


class MessageTooLargeError(SessionError):
    """The message would exceed the size limit; put large content elsewhere and refer to it."""


class UnknownMessageError(SessionError):
    """No message of that id exists in this session; nothing was stored."""


class UnknownSessionError(SessionError):
    """No session of that id is registered; list them with `SessionManager.list()`."""


class InvalidCompactionError(SessionError):
    """The range of a summary lies on no path of this session; nothing was stored."""


class InvalidSearchError(SessionError):
    """A search has no text to look for, or a limit out of range; give 1 to 1000."""


class ContextBlockError(SessionError):
    """The context block cannot be written, added or found; the message says why."""


class SessionSetupError(SessionError):
    """The session's set-up is incomplete, wrong or came after its first use."""


class InvalidImportError(SessionError):
    """What is to be imported is not whole, or would mix with what is there; nothing was stored."""


class StateRejectedError(AgentRuntimeError):
    """The state model or `validate_state_change` refused the value; nothing was stored."""


class ReadonlyConnectionError(StateRejectedError):
    """The change was made for a connection that may only read; nothing was stored."""


class ClientViewError(AgentRuntimeError):
    """`client_view` raised or returned what is no JSON; the gateway's log says why."""


class ConflictError(AgentRuntimeError):
    """Somebody else was first; read the present state and decide again."""


class VersionConflictError(ConflictError):
    """`expected_version` is not the present version."""


class IdempotencyConflictError(ConflictError):
    """The idempotency key was used before with another payload; use a new key."""


class AgentDestroyedError(ConflictError):
    """The agent was destroyed meanwhile; what comes next of its name is a new one."""


class HandlerError(AgentRuntimeError):
    """A handler of the agent raised; the message names the handler and its error."""


class HandlerCancelledError(HandlerError):
    """The call was cancelled before its handler finished."""


class HandlerDivergedError(HandlerError):
    """A repeated handler asked for another effect than it had committed before the crash."""


class ExclusiveDeadlockError(HandlerError):
    """An exclusive handler called, perhaps through others, an exclusive one of its own agent."""


class HookLoopError(HandlerError):
    """`on_state_changed` sets the state again and again; stop when nothing changes."""


class AgentStartError(HandlerError):
    """`on_start` raised; the next contact tries again."""


class UnavailableError(AgentRuntimeError):
    """Nothing answered; try again later with the same idempotency key."""

    is_retryable = True


class TemporalUnreachableError(UnavailableError):
    """The Temporal server does not answer; check address, TLS and API key."""


class CallTimeoutError(UnavailableError):
    """No answer within the deadline; the work may still happen, so repeat with the same key."""


class StorageError(AgentRuntimeError):
    """The database refused; nothing of this unit of work was stored."""


class StorageUnavailableError(StorageError):
    """The database is locked, closing or failing; the work is repeated automatically."""

    is_retryable = True


class StorageFullError(StorageError):
    """No space is left on the data directory's disk; free some and repeat."""


class StorageReadOnlyError(StorageError):
    """The data directory or its database cannot be written; check owner and mount."""


class StorageCorruptError(StorageError):
    """The file is not a sound database; restore a backup."""


class StorageSchemaError(StorageError):
    """The schema is a newer release's: upgrade; or, on PostgreSQL, an older one's: migrate."""


class ModelError(AgentRuntimeError):
    """A language model gave no usable answer; its subclasses say why."""


class ModelUnavailableError(ModelError):
    """The model's provider is out of order or cannot be reached; try again later.

    Temporal waits as long as the provider asked for, `retry_after_seconds` in the details, before
    the next attempt.
    """

    is_retryable = True

    @property
    def next_retry_delay(self) -> timedelta | None:
        """How long the provider asked to be left alone."""
        seconds = self.details_map.get("retry_after_seconds")
        return timedelta(seconds=seconds) if isinstance(seconds, int | float) else None


class ModelRateLimitedError(ModelUnavailableError):
    """The model's provider was asked too much in too short a time; try again later."""


class ModelTimeoutError(ModelUnavailableError):
    """The model gave no whole answer within the deadline; allow more time or ask for less."""


class ModelRequestError(ModelError):
    """The model's provider refused the request as written; correct it or the configuration."""


class ModelAuthenticationError(ModelRequestError):
    """The model's key is missing, wrong or not allowed this; the message names its variable."""


class ContextTooLongError(ModelRequestError):
    """The request is longer than the model can read; shorten or split it."""


class ModelRefusedError(ModelError):
    """The model or its provider's filter withheld the answer; ask for something else."""


class ModelResponseError(ModelError):
    """The model's answer is blank, reasoning only or malformed; another try may do better."""

    is_retryable = True


class ConfigurationError(AgentRuntimeError):
    """A setting, module or address is wrong; the message says which and what to write."""


class InternalError(AgentRuntimeError):
    """A bug in this library; please report it with the log."""


FOR_CLIENTS: tuple[type[AgentRuntimeError], ...] = (
    InvalidRequestError,
    StateRejectedError,
    ConflictError,
    HandlerError,
    ContextTooLongError,
    ModelRefusedError,
)
"""What these say is for whoever asked; all others name paths, hosts or tables."""


def is_stop(error: BaseException) -> bool:
    """Tell whether an author's code was stopped; all else that it may raise is an error of its own.

    That is no matter of the class: extension modules raise a `BaseException` where they panic, and
    who waits for a task that was cancelled is raised its CancelledError.
    """
    if not isinstance(error, asyncio.CancelledError):
        return isinstance(error, (KeyboardInterrupt, GeneratorExit))
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False  # in a thread, which nobody cancels
    return task is None or task.cancelling() > 0


def repeats_handler(error: BaseException) -> bool:
    """Tell whether a handler that ended so is run again, as what it needs will be back.

    A model is no part of the runtime: its errors are the caller's, who knows how long to go on.
    """
    if not isinstance(error, AgentRuntimeError) or isinstance(error, ModelError):
        return False
    return error.is_retryable


def text_of(error: BaseException) -> str:
    """Return what an error says without its class, nothing if even that raises."""
    if isinstance(error, AgentRuntimeError):
        return error.message
    try:
        return str(error)
    except Exception:
        return ""


def public_text(error: BaseException) -> str:
    """Return what an error says to clients and models, who are not to know of paths and tables.

    Of an error of ours that is for operators it is the first sentence about its kind.
    """
    if isinstance(error, AgentRuntimeError) and not isinstance(error, FOR_CLIENTS):
        return (type(error).__doc__ or "").strip().split("\n")[0]
    return text_of(error)


def describe(error: BaseException) -> str:
    """Return an author's error in one line: its class and what it says."""
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _bounded(text: str) -> str:
    # Errors travel through histories beside hundreds of others, and quote what authors wrote: they
    # must stay small and be text that UTF-8 can write.
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 4]} ..."


def _walk(cls: type[AgentRuntimeError]) -> Iterator[type[AgentRuntimeError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _walk(child)


def error_types() -> dict[str, type[AgentRuntimeError]]:
    """Return every error class by its stable `type` string."""
    return {cls.__name__: cls for cls in _walk(AgentRuntimeError)}


def from_record(record: Mapping[str, Any]) -> AgentRuntimeError:
    """Rebuild the error that `AgentRuntimeError.to_record` wrote; unknown types become the base."""
    cls = error_types().get(record["type"], AgentRuntimeError)
    return cls(record["message"], **record.get("details", {}))


def from_failure(failure: BaseException | None) -> AgentRuntimeError | None:
    """Find our error in a Temporal failure chain, or return None when there is none."""
    types = error_types()
    while failure is not None:
        if isinstance(failure, AgentRuntimeError):
            return failure
        if isinstance(failure, ApplicationError) and failure.type in types:
            details = failure.details[0] if failure.details else {}
            return types[failure.type](failure.message, **details)
        failure = failure.__cause__
    return None
