"""What the runtime asks of a database; SQLite and PostgreSQL answer alike.

All writing happens in units of work: `Storage.write` runs an async function over a `Transaction`.
Units that arrive together share one commit; a unit that raises is undone alone. A unit must await
nothing but its transaction's own methods. Methods take and give sets of rows, never one row at a
time, so that the cost of a unit is a handful of statements.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TypeVar

from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredState:
    """The head of an agent: its present state.

    Args:
        agent_id: The agent's number in this database.
        version: Number of mutations ever applied; 0 for none.
        state: JSON text, or None if the state was never set.
        full_version: Newest version whose history entry holds the whole state.
        updated_at: Milliseconds since 1970 of the last mutation, 0 for none.
    """

    agent_id: int
    version: int = 0
    state: str | None = None
    full_version: int = 0
    updated_at: int = 0


@dataclass(frozen=True, slots=True)
class StoredReceipt:
    """What is remembered of an applied mutation by its idempotency key."""

    version: int
    kind: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class MutationRow:
    """An applied mutation: receipt and history entry in one row.

    Args:
        value: JSON text: the whole state if `is_full`, else the changed top-level keys; None once
            the history's retention has passed.
    """

    agent_id: int
    version: int
    key: str | None
    fingerprint: str | None
    kind: str
    source: str
    value: str | None
    is_full: bool
    created_at: int


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """Something that connected clients are to be told, in order of `seq`."""

    agent_id: int
    kind: str
    version: int
    payload: str | None
    created_at: int
    seq: int = 0


@dataclass(frozen=True, slots=True)
class FeedRow:
    """An entry of the change feed with what is needed to tell connected clients.

    Args:
        kind: "state" or a kind of `OutboxRow`.
        payload: JSON text; for a state the whole of it if `is_full`, else the keys that changed;
            None if retention has dropped it.
        source: For a state: "server" or the id of the connection that sent it.
        key: For a state: the mutation's idempotency key.
    """

    seq: int
    ref: AgentRef
    kind: str
    version: int
    payload: str | None
    is_full: bool = True
    source: str = "server"
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """An open WebSocket of an agent.

    Args:
        socket: Names this one socket; a reconnecting client brings its `connection_id` again.
        gateway: The process that holds it.
        tags: JSON text of a list, the connection id first.
        state: JSON text that the author attached, or None.
    """

    socket: str
    agent_id: int
    connection_id: str
    gateway: str
    uri: str
    tags: str
    is_readonly: bool
    has_protocol: bool
    opened_at: int
    state: str | None = None


@dataclass(frozen=True, slots=True)
class InvocationRow:
    """One handler run asked for: an entry of the agent's inbox until it is finished.

    Args:
        kind: "call" or "hook".
        method: The handler.
        request: JSON text of what it is given.
        is_cancelled: Its caller has asked for it to stop.
        outcome: JSON text of `{"result"}` or `{"error"}`; None while it is not finished.
        number: Grows with each entry of the storage; given by the database.
    """

    agent_id: int
    key: str
    kind: str
    method: str
    request: str
    fingerprint: str
    created_at: int
    is_cancelled: bool = False
    outcome: str | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class InboxMark:
    """What tells whether an agent's inbox has changed: its newest entry and its cancellations."""

    newest: int
    cancellations: int


@dataclass(frozen=True, slots=True)
class EffectRow:
    """A durable effect of a handler at its position, with its recorded result as JSON text."""

    agent_id: int
    invocation: str
    position: int
    kind: str
    fingerprint: str
    result: str | None
    created_at: int


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent as listings show it."""

    ref: AgentRef
    version: int
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Retention:
    """How long things are kept.

    Receipts live for `receipt_age` or as the newest `receipt_count` of their agent, whichever is
    longer. History values are kept for the newest `history_count` versions of an agent, and no more
    than `history_bytes`. Outbox rows and answers of one-way batches are kept for `outbox_age`.
    """

    receipt_age: timedelta = timedelta(days=7)
    receipt_count: int = 10_000
    history_count: int = 1_000
    history_bytes: int = 16 * 1024 * 1024
    outbox_age: timedelta = timedelta(minutes=10)


class Transaction(Protocol):
    """One unit of work in progress."""

    async def load_states(self, refs: Sequence[AgentRef]) -> dict[AgentRef, StoredState]:
        """Return the heads of all given agents, making those that do not exist yet."""

    async def load_receipts(
        self, keys: Sequence[tuple[int, str]]
    ) -> dict[tuple[int, str], StoredReceipt]:
        """Return the receipts that exist among (agent id, idempotency key)."""

    async def add_mutations(self, rows: Sequence[MutationRow]) -> None:
        """Add receipts with their history entries."""

    async def put_states(self, rows: Sequence[StoredState]) -> None:
        """Replace heads."""

    async def add_outbox(self, rows: Sequence[OutboxRow]) -> None:
        """Append to the change feed; `seq` is given by the database."""

    async def put_connection(self, row: ConnectionRow) -> None:
        """Note an open socket, or replace what is noted of it."""

    async def delete_connections(self, sockets: Sequence[str]) -> None:
        """Forget closed sockets."""

    async def note_gateway(self, gateway: str, now: int) -> bool:
        """Note that a gateway lives; False if it was not known, or was taken for dead."""

    async def delete_gateway(self, gateway: str) -> None:
        """Forget a gateway that has ended, and all its sockets."""

    async def delete_dead_gateways(self, seen_before: int) -> list[tuple[AgentRef, ConnectionRow]]:
        """Forget gateways that were not noted for long, and return their sockets."""

    async def add_answer(self, batch_id: str, outcomes: str, created_at: int) -> None:
        """Keep the outcomes of a one-way batch until its sender has read them."""

    async def load_invocations(
        self, keys: Sequence[tuple[int, str]]
    ) -> dict[tuple[int, str], InvocationRow]:
        """Return the inbox entries, finished or not, that exist among (agent id, key)."""

    async def add_invocations(self, rows: Sequence[InvocationRow]) -> None:
        """Append to inboxes, leaving out keys that are there."""

    async def cancel_invocations(self, keys: Sequence[tuple[int, str]]) -> None:
        """Mark entries that are not finished as cancelled."""

    async def finish_invocations(self, rows: Sequence[InvocationRow]) -> None:
        """Record outcomes, the first one for each entry, and drop the effects on their way."""

    async def delete_invocations(self, keys: Sequence[tuple[int, str]]) -> None:
        """Drop entries that nobody will ask for, with the effects on their way."""

    async def add_effect(self, row: EffectRow) -> EffectRow:
        """Note an effect, or return the row that its position already has."""

    async def prune_agent(self, agent_id: int, retention: Retention, now: int) -> None:
        """Drop the agent's receipts and history values beyond their retention."""

    async def prune_feed(self, before: int) -> None:
        """Drop outbox rows and answers made before the given time in milliseconds."""


class Storage(Protocol):
    """A database with the state of all agents of one installation."""

    async def write(self, unit: Callable[[Transaction], Awaitable[T]]) -> T:
        """Run a unit of work and return its result once it is on disk.

        Cancelling the caller does not undo a unit that has begun.

        Raises:
            StorageError: The database refused; nothing of the unit was stored.
        """

    async def read_state(self, ref: AgentRef) -> StoredState | None:
        """Return an agent's head, or None if there is no such agent."""

    async def read_history(
        self, ref: AgentRef, *, newest: int | None = None, limit: int = 100
    ) -> list[MutationRow]:
        """Return mutations, newest first, from version `newest` down."""

    async def read_version(self, ref: AgentRef, version: int) -> list[MutationRow]:
        """Return what rebuilds a version: the newest whole state up to it and the changes since."""

    async def read_answer(self, batch_id: str) -> str | None:
        """Return the outcomes of a one-way batch, or None while there are none."""

    async def read_feed(self, after: int, limit: int) -> list[FeedRow]:
        """Return entries of the change feed with a higher `seq`, in order."""

    async def read_feed_end(self) -> int:
        """Return the highest `seq` of the change feed, 0 if it is empty."""

    async def read_change_mark(self) -> int:
        """Return a number that changes when anybody commits; costs next to nothing."""

    async def read_connections(self, ref: AgentRef) -> list[ConnectionRow]:
        """Return the agent's open sockets, oldest first."""

    async def read_outbox(self, after: int, limit: int) -> list[OutboxRow]:
        """Return rows of the change feed with a higher `seq`."""

    async def read_invocations(
        self, keys: Sequence[tuple[AgentRef, str]]
    ) -> dict[tuple[AgentRef, str], InvocationRow]:
        """Return the inbox entries, finished or not, that exist among (agent, key)."""

    async def read_inbox(self, agent_id: int, after: int, limit: int) -> list[InvocationRow]:
        """Return the agent's entries with a higher number that are not finished, oldest first."""

    async def read_inbox_marks(self, agent_ids: Sequence[int]) -> dict[int, InboxMark]:
        """Return the marks of those agents that have unfinished entries."""

    async def read_waiting_agents(self, before: int, limit: int) -> list[AgentRef]:
        """Return agents with an unfinished entry made before the given time."""

    async def read_effects(self, ref: AgentRef, invocation: str) -> list[EffectRow]:
        """Return the effects of an unfinished call, state mutations included, by position."""

    async def list_agents(
        self, *, class_name: str | None = None, after: AgentRef | None = None, limit: int = 100
    ) -> list[AgentRow]:
        """Return agents in order of class and name."""

    async def sql(self, ref: AgentRef, query: str, params: Sequence[Json]) -> list[dict[str, Json]]:
        """Run one statement on the agent's own database.

        Raises:
            SqlError: The statement failed; it changed nothing.
        """

    async def sql_once(
        self, ref: AgentRef, query: str, params: Sequence[Json], *, effect: EffectRow
    ) -> tuple[EffectRow, list[dict[str, Json]]]:
        """Run one writing statement and note it as an effect, both or neither.

        Returns the noted effect (the earlier one if its position has one) and the result rows.
        """

    async def sql_effects(self, ref: AgentRef, invocation: str) -> list[EffectRow]:
        """Return the effects that `sql_once` noted for an invocation."""

    async def close(self) -> None:
        """Finish what has begun and close all files."""
