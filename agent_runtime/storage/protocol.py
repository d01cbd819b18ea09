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
from typing import NamedTuple, Protocol, TypeVar

from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.storage.session_protocol import SessionReads, SessionWrites

T = TypeVar("T")

DESTROYED = "destroyed"
"""Kind of the last entry that an agent has in the change feed."""


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


class StoredReceipt(NamedTuple):
    """What is remembered of an applied mutation by its idempotency key."""

    version: int
    kind: str
    fingerprint: str


class MutationRow(NamedTuple):
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


class OutboxRow(NamedTuple):
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
        kind: "state", `DESTROYED` or another kind of `OutboxRow`.
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
        has_readonly_token: Its client may only read, whatever the author says.
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
    has_readonly_token: bool = False


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
class DestroyedAgent:
    """What is remembered of an agent that was destroyed.

    Args:
        agent_id: The number that it had; no other agent is ever given it.
        key: Idempotency key of the destroy.
        version: Its state's version at the end.
        is_finished: Nothing of it is left, and all its calls have an outcome.
    """

    agent_id: int
    ref: AgentRef
    key: str
    version: int
    destroyed_at: int
    is_finished: bool = False


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
    longer; so do finished calls, and single calls of models. History values are kept for the newest
    `history_count` versions of an agent, and no more than `history_bytes`. Outbox rows and answers
    of one-way batches are kept for `outbox_age`.
    """

    receipt_age: timedelta = timedelta(days=7)
    receipt_count: int = 10_000
    history_count: int = 1_000
    history_bytes: int = 16 * 1024 * 1024
    outbox_age: timedelta = timedelta(minutes=10)


class Transaction(Protocol):
    """One unit of work in progress."""

    @property
    def sessions(self) -> SessionWrites:
        """Conversations of agents."""

    async def load_states(self, refs: Sequence[AgentRef]) -> dict[AgentRef, StoredState]:
        """Return the heads of all given agents, making those that do not exist yet.

        A number is given to one agent only, also after that agent was destroyed; whatever adds
        rows under a number that has no agent is refused with `AgentDestroyedError`.
        """

    async def find_states(self, refs: Sequence[AgentRef]) -> dict[AgentRef, StoredState]:
        """Return the heads of those agents that exist."""

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
        """Return the inbox entries, finished or not, that exist among (agent id, key).

        Also those calls that a former agent of the same name had not finished when it was
        destroyed: what was begun in one life is not begun again in the next.
        """

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

    async def hold_agent(self, agent_id: int) -> None:
        """Keep an agent from being destroyed until the unit has ended.

        Raises:
            AgentDestroyedError: There is no agent with this number any more.
        """

    async def find_destroyed(self, ref: AgentRef, key: str) -> DestroyedAgent | None:
        """Return what is remembered of a destroy by its idempotency key."""

    async def delete_agent(
        self, agent: DestroyedAgent, *, outcome: str, without_call: str | None = None
    ) -> None:
        """Delete all rows of an agent but those of the change feed, where its end is noted.

        Args:
            outcome: JSON text of what becomes of the calls that were not finished.
            without_call: The call whose handler destroys, which has its own outcome later.
        """

    async def finish_destroyed_call(self, agent_id: int, key: str, outcome: str) -> None:
        """Record the outcome of the call that has destroyed its agent."""

    async def finish_destroyed(self, agent_id: int, outcome: str) -> None:
        """Note that nothing is left of an agent; its calls without an outcome are given one."""

    async def prune_destroyed(self, before: int) -> None:
        """Forget finished agents that were destroyed before the given time in milliseconds."""

    async def prune_agent(self, agent_id: int, retention: Retention, now: int) -> None:
        """Drop the agent's receipts, calls and history values beyond their retention."""

    async def prune_feed(self, before: int) -> None:
        """Drop outbox rows and answers made before the given time in milliseconds."""


class Storage(Protocol):
    """A database with the state of all agents of one installation."""

    @property
    def sessions(self) -> SessionReads:
        """Conversations of agents."""

    @property
    def place(self) -> str:
        """What people call it: a file, or host and name; never a password."""

    async def write(self, unit: Callable[[Transaction], Awaitable[T]]) -> T:
        """Run a unit of work and return its result once it is on disk.

        Cancelling the caller does not undo a unit that has begun. A unit may be undone and run
        again, if another process holds what it needs: it must change nothing but its transaction.

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
        """Return a number that changes when the change feed has grown; costs next to nothing."""

    async def read_connections(self, ref: AgentRef) -> list[ConnectionRow]:
        """Return the agent's open sockets, oldest first."""

    async def read_outbox(self, after: int, limit: int) -> list[OutboxRow]:
        """Return rows of the change feed with a higher `seq`."""

    async def read_invocations(
        self, keys: Sequence[tuple[AgentRef, str]]
    ) -> dict[tuple[AgentRef, str], InvocationRow]:
        """Return the inbox entries, finished or not, that exist among (agent, key).

        Of an agent that was destroyed: the calls that were not finished then.
        """

    async def read_inbox(self, agent_id: int, after: int, limit: int) -> list[InvocationRow]:
        """Return the agent's entries with a higher number that are not finished, oldest first."""

    async def read_inbox_marks(self, agent_ids: Sequence[int]) -> dict[int, InboxMark]:
        """Return the marks of those agents that have unfinished entries."""

    async def read_living(self, agent_ids: Sequence[int]) -> set[int]:
        """Return those numbers that have an agent."""

    async def read_waiting_agents(self, before: int, limit: int) -> list[AgentRef]:
        """Return agents with an unfinished entry made before the given time."""

    async def read_effects(self, ref: AgentRef, invocation: str) -> list[EffectRow]:
        """Return the effects of an unfinished call, state mutations included, by position."""

    async def read_unfinished(
        self, before: int, limit: int, *, ref: AgentRef | None = None
    ) -> list[DestroyedAgent]:
        """Return agents destroyed before a time of which something is left, oldest first."""

    async def list_agents(
        self, *, class_name: str | None = None, after: AgentRef | None = None, limit: int = 100
    ) -> list[AgentRow]:
        """Return agents in order of class and name."""

    async def sql(
        self, ref: AgentRef, agent_id: int, query: str, params: Sequence[Json]
    ) -> list[dict[str, Json]]:
        """Run one statement on the agent's own database, which belongs to its number.

        It may run beside the agent's other statements; what must not is for `sql_once`.

        Raises:
            SqlError: The statement failed; it changed nothing.
            AgentDestroyedError: The agent with this number was destroyed.
        """

    async def sql_read(
        self, ref: AgentRef, agent_id: int, query: str, params: Sequence[Json]
    ) -> list[dict[str, Json]] | None:
        """Run one statement that looks like reading, as `sql` does.

        Returns the rows, or None if it would have written, as a function that it calls may:
        nothing was done then.
        """

    async def sql_once(
        self, ref: AgentRef, query: str, params: Sequence[Json], *, effect: EffectRow
    ) -> tuple[EffectRow, list[dict[str, Json]]]:
        """Run one writing statement and note it as an effect, both or neither.

        An agent's take turns, whichever processes they come from: each sees what those before it
        have committed.

        Returns the noted effect (the earlier one if its position has one) and the result rows.
        """

    async def sql_effects(self, ref: AgentRef, agent_id: int, invocation: str) -> list[EffectRow]:
        """Return the effects that `sql_once` noted for an invocation."""

    async def forget_sql_effects(self, ref: AgentRef, agent_id: int, invocation: str) -> None:
        """Let go of what `sql_once` noted for an invocation that nobody will repeat.

        Its inner journals are meant too. It may happen with a later write of the agent; what a
        crash keeps from being forgotten stays and does no harm.
        """

    async def sql_place(self, ref: AgentRef, agent_id: int) -> str | None:
        """Return what people call the agent's own database, None if it has none yet."""

    async def delete_sql(self, ref: AgentRef, agent_id: int) -> None:
        """Delete the own database of an agent that was destroyed; harmless without one."""

    async def close(self) -> None:
        """Finish what has begun and close all files."""
