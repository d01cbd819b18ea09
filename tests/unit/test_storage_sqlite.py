"""The SQLite storage: the checks of every storage, on real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_runtime.storage.sqlite import SqliteStorage
from agent_runtime.testing.storage_conformance import (
    STORAGE_CHECKS,
    StorageCheck,
    check_name,
    run_storage_check,
)


@pytest.mark.parametrize("check", STORAGE_CHECKS, ids=check_name)
async def test_storage_check(check: StorageCheck, tmp_path: Path) -> None:
    """SQLite keeps what `Storage` promises."""
    await run_storage_check(check, lambda: SqliteStorage.open(tmp_path / "data"))
