"""Outcomes of an agent's inbox as failures of activities."""

from __future__ import annotations

from temporalio.exceptions import ApplicationError

from agent_runtime.errors import AgentRuntimeError


def as_final(error: AgentRuntimeError) -> ApplicationError:
    """Return an outcome as a failure that is not retried: the entry has it for good."""
    return ApplicationError(
        error.message,
        *error.details,
        type=error.type,
        non_retryable=True,
        category=error.category,
    )
