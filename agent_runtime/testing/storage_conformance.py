"""Proof that a database can keep agents: checks that every `Storage` must pass.

Run each check on an empty database of its own, for example with pytest::

    @pytest.mark.parametrize("check", STORAGE_CHECKS, ids=check_name)
    async def test_my_storage(check: StorageCheck, tmp_path: Path) -> None:
        await run_storage_check(check, lambda: MyStorage.open(tmp_path))
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_runtime.testing._storage_calls import CALL_CHECKS
from agent_runtime.testing._storage_destroy import DESTROY_CHECKS
from agent_runtime.testing._storage_retention import RETENTION_CHECKS
from agent_runtime.testing._storage_session_appends import APPEND_CHECKS
from agent_runtime.testing._storage_session_changes import CHANGE_CHECKS
from agent_runtime.testing._storage_session_context import CONTEXT_CHECKS
from agent_runtime.testing._storage_session_overlays import OVERLAY_CHECKS
from agent_runtime.testing._storage_session_search import SEARCH_CHECKS
from agent_runtime.testing._storage_session_windows import WINDOW_CHECKS
from agent_runtime.testing._storage_sql import SQL_CHECKS
from agent_runtime.testing._storage_state import STATE_CHECKS
from agent_runtime.testing._storage_units import UNIT_CHECKS
from agent_runtime.testing._storage_usage import USAGE_CHECKS
from agent_runtime.testing.storage_bench import OpenStorage, StorageBench, StorageCheck

__all__ = [
    "SESSION_CHECKS",
    "STORAGE_CHECKS",
    "OpenStorage",
    "StorageBench",
    "StorageCheck",
    "check_name",
    "run_storage_check",
]

SESSION_CHECKS: Sequence[StorageCheck] = (
    *APPEND_CHECKS,
    *OVERLAY_CHECKS,
    *CHANGE_CHECKS,
    *WINDOW_CHECKS,
    *SEARCH_CHECKS,
    *CONTEXT_CHECKS,
    *USAGE_CHECKS,
)
"""Those of sessions alone."""

STORAGE_CHECKS: Sequence[StorageCheck] = (
    *STATE_CHECKS,
    *UNIT_CHECKS,
    *RETENTION_CHECKS,
    *CALL_CHECKS,
    *DESTROY_CHECKS,
    *SQL_CHECKS,
    *SESSION_CHECKS,
)
"""All checks; each needs a fresh, empty database."""


def check_name(check: StorageCheck) -> str:
    """Return a check's name, for reports."""
    return check.__name__


async def run_storage_check(check: StorageCheck, open_storage: OpenStorage) -> None:
    """Run one check and close what it opened.

    Args:
        open_storage: Opens the same, at first empty, database at each call.

    Raises:
        AssertionError: The storage does not do what `Storage` promises.
    """
    bench = StorageBench(open_storage, await open_storage())
    try:
        await check(bench)
    finally:
        await bench.storage.close()
