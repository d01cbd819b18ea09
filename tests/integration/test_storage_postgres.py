"""The PostgreSQL storage: the checks of every storage, on a real server."""

from __future__ import annotations

import pytest

from agent_runtime.storage.postgres import PostgresStorage
from agent_runtime.testing.storage_conformance import (
    STORAGE_CHECKS,
    StorageCheck,
    check_name,
    run_storage_check,
)
from tests.support.postgres_databases import SQL_ROLE, PostgresDatabases


@pytest.mark.parametrize("check", STORAGE_CHECKS, ids=check_name)
async def test_storage_check(check: StorageCheck, postgres: PostgresDatabases) -> None:
    """PostgreSQL keeps what `Storage` promises, with no more rights than docs/postgres.md gives."""
    url = await postgres.migrated()
    await run_storage_check(check, lambda: PostgresStorage.open(url, sql_role=SQL_ROLE))
