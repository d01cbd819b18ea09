"""Errors of asyncpg's as the runtime's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from agent_runtime.errors import StorageUnavailableError
from agent_runtime.storage.postgres_states import error_of_state
from agent_runtime.storage.refused_statement import refused_statement
from agent_runtime.storage.unstorable import unstorable_error


@contextmanager
def storage_errors(place: str) -> Iterator[None]:
    """Turn PostgreSQL's errors into ones of the runtime that name the server and what to do."""
    try:
        yield
    except asyncpg.PostgresError as error:
        # Of no subclass: the client has refused to send it, and the server knows nothing of it.
        if type(error) is asyncpg.DataError:
            raise unstorable_error() from error
        told = error_of_state(place, error.sqlstate or "", str(error))
        raise told or refused_statement(place, error) from error
    except (asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        # Wrong values are these classes too; a bug must not look like a server that is away.
        if "clos" not in str(error) and "released" not in str(error):
            raise refused_statement(place, error) from error
        raise StorageUnavailableError(f"{place}: the connection is closed") from error
    except (OSError, TimeoutError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "it takes too long"
        raise StorageUnavailableError(f"{place} does not answer: {reason}") from error
