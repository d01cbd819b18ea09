"""Errors as a public contract: their type strings, and their way through records and failures."""

from __future__ import annotations

import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.client import WorkflowFailureError
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from agent_runtime import errors
from agent_runtime.errors import (
    MAX_TEXT,
    AgentRuntimeError,
    HandlerError,
    StateRejectedError,
    UnavailableError,
    VersionConflictError,
    error_types,
    from_failure,
    from_record,
)
from agent_runtime.json_value import from_json, to_json

PARENTS = {
    "AgentRuntimeError": "ApplicationError",
    "InvalidRequestError": "AgentRuntimeError",
    "InvalidAgentError": "InvalidRequestError",
    "UnknownAgentClassError": "InvalidRequestError",
    "UnknownMethodError": "InvalidRequestError",
    "MethodNotCallableError": "InvalidRequestError",
    "NotSerializableError": "InvalidRequestError",
    "StateTooLargeError": "InvalidRequestError",
    "SqlError": "InvalidRequestError",
    "SessionError": "InvalidRequestError",
    "InvalidMessageError": "SessionError",
    "MessageTooLargeError": "SessionError",
    "UnknownMessageError": "SessionError",
    "UnknownSessionError": "SessionError",
    "InvalidCompactionError": "SessionError",
    "InvalidSearchError": "SessionError",
    "ContextBlockError": "SessionError",
    "SessionSetupError": "SessionError",
    "InvalidImportError": "SessionError",
    "StateRejectedError": "AgentRuntimeError",
    "ReadonlyConnectionError": "StateRejectedError",
    "ClientViewError": "AgentRuntimeError",
    "ConflictError": "AgentRuntimeError",
    "VersionConflictError": "ConflictError",
    "IdempotencyConflictError": "ConflictError",
    "AgentDestroyedError": "ConflictError",
    "HandlerError": "AgentRuntimeError",
    "HandlerCancelledError": "HandlerError",
    "HandlerDivergedError": "HandlerError",
    "ExclusiveDeadlockError": "HandlerError",
    "HookLoopError": "HandlerError",
    "AgentStartError": "HandlerError",
    "UnavailableError": "AgentRuntimeError",
    "TemporalUnreachableError": "UnavailableError",
    "CallTimeoutError": "UnavailableError",
    "StorageError": "AgentRuntimeError",
    "StorageUnavailableError": "StorageError",
    "StorageFullError": "StorageError",
    "StorageReadOnlyError": "StorageError",
    "StorageCorruptError": "StorageError",
    "StorageSchemaError": "StorageError",
    "ModelError": "AgentRuntimeError",
    "ModelUnavailableError": "ModelError",
    "ModelRateLimitedError": "ModelUnavailableError",
    "ModelTimeoutError": "ModelUnavailableError",
    "ModelRequestError": "ModelError",
    "ModelAuthenticationError": "ModelRequestError",
    "ContextTooLongError": "ModelRequestError",
    "ModelRefusedError": "ModelError",
    "ModelResponseError": "ModelError",
    "ConfigurationError": "AgentRuntimeError",
    "InternalError": "AgentRuntimeError",
}
"""Every type string and its family; programs catch by these, so they never change."""

RETRYABLE = {
    "UnavailableError",
    "TemporalUnreachableError",
    "CallTimeoutError",
    "StorageUnavailableError",
    "ModelUnavailableError",
    "ModelRateLimitedError",
    "ModelTimeoutError",
    "ModelResponseError",
}

TYPES = sorted(PARENTS)


def test_the_type_strings_are_these() -> None:
    """No type is missing, added or moved to another family."""
    found = {name: cls.__base__.__name__ for name, cls in error_types().items() if cls.__base__}

    assert found == PARENTS


def test_the_module_shows_the_whole_tree() -> None:
    """The tree at the top of the module names every class."""
    tree = errors.__doc__ or ""

    assert [name for name in TYPES if name not in tree] == []


@pytest.mark.parametrize("name", TYPES)
def test_only_passing_troubles_are_retried(name: str) -> None:
    """Temporal repeats an activity only for errors that can pass by themselves."""
    error = error_types()[name]("text")

    assert error.non_retryable is (name not in RETRYABLE)
    assert (error.type, error.category) == (name, ApplicationErrorCategory.BENIGN)


@pytest.mark.parametrize("name", TYPES)
def test_every_error_explains_itself(name: str) -> None:
    """Each class has its own sentence."""
    cls = error_types()[name]

    assert cls.__doc__ and cls.__doc__ != (cls.__base__.__doc__ if cls.__base__ else None)


@pytest.mark.parametrize("name", TYPES)
def test_records_keep_everything(name: str) -> None:
    """An error written as JSON and read again is the same error."""
    error = error_types()[name]("what happened", size=3, name="n", is_x=True, none=None)

    again = from_record(from_json(to_json(error.to_record())))

    assert type(again) is type(error)
    assert (again.message, dict(again.details_map)) == (error.message, dict(error.details_map))


def test_a_record_without_details_is_short() -> None:
    """Records are kept in histories; what is empty is left out."""
    record = StateRejectedError("no").to_record()

    assert record == {"type": "StateRejectedError", "message": "no"}


def test_an_unknown_record_becomes_the_base() -> None:
    """A record of a newer release is still an error of ours."""
    error = from_record({"type": "InventedLaterError", "message": "text", "details": {"a": 1}})

    assert type(error) is AgentRuntimeError
    assert (error.message, dict(error.details_map)) == ("text", {"a": 1})


@pytest.mark.parametrize("name", TYPES)
async def test_failures_keep_everything(name: str) -> None:
    """An error that crosses Temporal as a failure is found again with type and details."""
    error = error_types()[name]("what happened", expected=4, actual=5)

    again = from_failure(await _through_temporal(error))

    assert type(again) is type(error)
    assert again is not None
    assert (again.message, dict(again.details_map)) == (
        "what happened",
        {"expected": 4, "actual": 5},
    )


async def test_an_error_is_found_below_others() -> None:
    """Temporal wraps failures; ours is found at any depth."""
    outer = WorkflowFailureError(cause=RuntimeError("outer"))
    assert outer.cause is not None
    outer.cause.__cause__ = await _through_temporal(VersionConflictError("late", actual=2))

    found = from_failure(outer.cause)

    assert isinstance(found, VersionConflictError)


def test_strangers_are_not_ours() -> None:
    """Errors of others, with the same shape, are none of ours."""
    assert from_failure(None) is None
    assert from_failure(ValueError("x")) is None
    assert from_failure(ApplicationError("x", type="SomeError")) is None
    assert from_failure(ApplicationError("x")) is None


def test_a_family_is_caught_together() -> None:
    """`except` on the base catches what can be repeated, and nothing else."""
    repeatable = {name for name, cls in error_types().items() if issubclass(cls, UnavailableError)}

    assert repeatable == {"UnavailableError", "TemporalUnreachableError", "CallTimeoutError"}


def test_long_texts_are_cut() -> None:
    """A message of megabytes cannot burst the history that it travels through."""
    error = HandlerError("x" * 3_000_000, error="y" * 3_000_000, size=1)

    assert [len(error.message), len(str(error.details_map["error"]))] == [MAX_TEXT, MAX_TEXT]
    assert error.message.endswith(" ...")
    assert len(to_json(error.to_record())) < 3 * MAX_TEXT


async def test_texts_that_cannot_be_written_are_mended() -> None:
    """A lone surrogate in an author's message does not hide the error or fail others with it."""
    error = HandlerError("bad \ud800 text", error="\udfff")

    again = from_failure(await _through_temporal(error))

    assert again is not None
    assert (again.message, again.details_map["error"]) == ("bad ? text", "?")


async def _through_temporal(error: BaseException) -> BaseException:
    converter, failure = DataConverter.default, Failure()
    await converter.encode_failure(error, failure)
    return await converter.decode_failure(Failure.FromString(failure.SerializeToString()))


def test_what_an_error_says_is_without_its_class() -> None:
    """Of ours and of an author's; nothing if it cannot be said."""

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert errors.text_of(errors.ModelError("model down")) == "model down"
    assert errors.text_of(OSError("model down")) == "model down"
    assert errors.text_of(Unspeakable()) == ""
    assert errors.describe(errors.ModelError("model down")) == "ModelError: model down"
