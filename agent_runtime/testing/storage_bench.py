"""What the storage checks share: the storage under test, rows to put in, and comparing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import orjson

from agent_runtime.hosting.state_change import rebuild
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json, from_json
from agent_runtime.state import UNSET
from agent_runtime.storage.protocol import (
    AgentRow,
    MutationRow,
    Storage,
    StoredReceipt,
    StoredState,
    Transaction,
)

OpenStorage = Callable[[], Awaitable[Storage]]

ROOM = AgentRef("Room", "a")
OTHER = AgentRef("Room", "b")


class StorageBench:
    """The storage under test, and how to open it again.

    Args:
        open_storage: Opens the same database at each call.
    """

    def __init__(self, open_storage: OpenStorage, storage: Storage) -> None:
        self._open = open_storage
        self.storage = storage

    async def reopen(self) -> None:
        """Close the storage and open the same database again, as after a restart."""
        await self.storage.close()
        self.storage = await self._open()

    async def open_again(self) -> Storage:
        """Open the same database beside, as another process has it; the caller closes it."""
        return await self._open()

    async def agent_id(self, ref: AgentRef = ROOM) -> int:
        """Make the agent if it is new and return its number."""
        return (await self.storage.write(lambda tx: tx.load_states([ref])))[ref].agent_id

    async def sql(self, ref: AgentRef, query: str, params: Sequence[Json]) -> list[dict[str, Json]]:
        """Run a statement on the agent's own database, making the agent if it is new."""
        stored = await self.storage.read_state(ref)
        number = await self.agent_id(ref) if stored is None else stored.agent_id
        return await self.storage.sql(ref, number, query, params)

    async def put(
        self,
        ref: AgentRef,
        value: str,
        *,
        key: str | None = None,
        is_full: bool = True,
        at: int = 1_000,
        source: str = "server",
    ) -> int:
        """Commit one mutation with its head, as the runtime does, and return its version."""
        return await self.storage.write(
            lambda tx: put_one(tx, ref, value, key=key, is_full=is_full, at=at, source=source)
        )

    async def receipts(self, ref: AgentRef, *keys: str) -> dict[str, StoredReceipt]:
        """Return the receipts that exist among the agent's keys."""
        number = await self.agent_id(ref)
        found = await self.storage.write(
            lambda tx: tx.load_receipts([(number, key) for key in keys])
        )
        return {key: receipt for (_, key), receipt in found.items()}

    async def head(self, ref: AgentRef = ROOM) -> StoredState:
        """Return the agent's head, which must exist."""
        head = await self.storage.read_state(ref)
        if head is None:
            raise AssertionError(f"{ref} is unknown")
        return head

    async def rebuilt(self, ref: AgentRef, version: int) -> Json:
        """Return the state at a version out of the history, UNSET if it is kept no longer."""
        rows = await self.storage.read_version(ref, version)
        if not rows or rows[-1].version != version:
            return UNSET
        return rebuild([(row.is_full, row.value) for row in rows])


class StorageCheck(Protocol):
    """One check; raises AssertionError where the storage breaks its promise."""

    __name__: str

    async def __call__(self, bench: StorageBench, /) -> None:
        """Run on a storage that is empty."""


async def put_one(
    tx: Transaction,
    ref: AgentRef,
    value: str,
    *,
    key: str | None = None,
    is_full: bool = True,
    at: int = 1_000,
    source: str = "server",
) -> int:
    """Add one mutation and its head within a unit; a change is merged into the head."""
    head = (await tx.load_states([ref]))[ref]
    version = head.version + 1
    row = MutationRow(
        head.agent_id,
        version,
        key if key is not None else f"key-{version}",
        f"print-{value[:20]}",
        "set" if is_full else "merge",
        source,
        value,
        is_full,
        at,
    )
    await tx.add_mutations([row])
    state = value if is_full else _merged(head.state or "{}", value)
    full_version = version if is_full else head.full_version
    await tx.put_states([StoredState(head.agent_id, version, state, full_version, at)])
    return version


def listed(rows: Sequence[AgentRow]) -> list[AgentRef]:
    """Return the addresses of a listing."""
    return [row.ref for row in rows]


def expect(expected: object, actual: object, what: str = "value") -> None:
    """Compare, in a way that no interpreter flag takes out.

    Raises:
        AssertionError: They differ.
    """
    if expected != actual:
        raise AssertionError(f"{what}: expected {expected!r}, got {actual!r}")


async def expect_error(kind: type[BaseException], work: Awaitable[object]) -> None:
    """Await work that must fail.

    Raises:
        AssertionError: It did not, or in another way.
    """
    try:
        result = await work
    except kind:
        return
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        raise AssertionError(f"expected {kind.__name__}, got {error!r}") from error
    raise AssertionError(f"expected {kind.__name__}, got the result {result!r}")


def _merged(state: str, changes: str) -> str:
    return orjson.dumps({**from_json(state), **from_json(changes)}).decode()
