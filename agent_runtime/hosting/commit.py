"""Committing state mutations: decide in memory, write once, answer after the disk has it.

Requests of all agents of the process that arrive while a commit is running share the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from agent_runtime.clock import now_milliseconds
from agent_runtime.errors import is_stop
from agent_runtime.hosting.decision import CommitRequest, Known, Writes, decide
from agent_runtime.hosting.destruction import destroyed_error
from agent_runtime.hosting.state_change import WorkingState
from agent_runtime.identity import AgentRef
from agent_runtime.mutation import MutationKind, Outcome
from agent_runtime.storage.protocol import (
    Retention,
    Storage,
    StoredState,
    Transaction,
)

MAX_MUTATIONS = 5_000


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did to an agent, as told to listeners.

    Args:
        state: The agent's head after it; None if it stayed.
        has_entries: It put entries into the agent's inbox.
        has_cancellations: It cancelled entries.
    """

    ref: AgentRef
    state: StoredState | None
    has_entries: bool
    has_cancellations: bool


@dataclass(slots=True)
class _Entry:
    request: CommitRequest
    future: asyncio.Future[list[Outcome]]
    outcomes: list[Outcome] = field(default_factory=list)
    error: BaseException | None = None


class Committer:
    """Group commit of state mutations for one process.

    Args:
        storage: Where they go.
        on_commit: Called after each commit with what it did to each agent.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        on_commit: Callable[[list[Committed]], None],
        retention: Retention | None = None,
    ) -> None:
        self._storage = storage
        self._on_commit = on_commit
        self._retention = retention or Retention()
        self._waiting: list[_Entry] = []
        self._runner: asyncio.Task[None] | None = None

    async def commit(self, request: CommitRequest) -> list[Outcome]:
        """Commit a request and return one outcome per mutation, once all are on disk.

        Idempotency: a mutation whose key is stored is not applied again; its first receipt is
        returned, marked as duplicate.

        Raises:
            StorageError: Nothing of the request was stored.
        """
        future: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Entry(request, future))
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._drain())
        return await future

    async def _drain(self) -> None:
        while self._waiting:
            entries: list[_Entry] = []
            committed: list[Committed] = []
            try:
                committed = await self._storage.write(partial(self._unit, entries))
            except Exception as error:
                if not entries:  # the unit did not even begin
                    entries, self._waiting = self._waiting, []
                for entry in entries:
                    if not entry.future.done():
                        entry.future.set_exception(error)
                continue
            for entry in entries:
                if entry.future.done():
                    continue
                if entry.error is not None:
                    entry.future.set_exception(entry.error)
                else:
                    entry.future.set_result(entry.outcomes)
            if committed:
                self._on_commit(committed)

    async def _unit(self, entries: list[_Entry], tx: Transaction) -> list[Committed]:
        # Taken only now: all that has arrived while the writer was busy comes along.
        count = 0
        while self._waiting and count < MAX_MUTATIONS:
            entry = self._waiting.pop(0)
            if not entry.future.done():
                entries.append(entry)
                count += len(entry.request.mutations)
        for entry in entries:
            entry.error = None  # the unit may run again
        stored = await _load_states(tx, entries)
        refs = list(stored)
        working = {ref: WorkingState(stored[ref]) for ref in refs}
        living = [entry for entry in entries if _lives(entry, stored)]
        known = await _load_known(tx, living, stored)
        now = now_milliseconds()
        writes = Writes()
        for entry in living:
            try:
                entry.outcomes = decide(
                    entry.request, working[entry.request.ref], known, writes, now
                )
            except BaseException as error:  # the update function's; its caller gets it as it is
                if is_stop(error):
                    raise
                entry.error = error
        heads = {ref: state.head(now) for ref, state in working.items() if state.is_changed}
        if writes.mutations:
            await tx.add_mutations(writes.mutations)
            await tx.put_states(list(heads.values()))
            await tx.add_outbox(writes.outbox)
        if writes.inbox:
            await tx.add_invocations(writes.inbox)
        if writes.cancellations:
            await tx.cancel_invocations(writes.cancellations)
        await self._prune(tx, [working[ref] for ref in heads], now)
        called = {row.agent_id for row in writes.inbox}
        cancelled = {agent_id for agent_id, _ in writes.cancellations}
        return [
            Committed(
                ref,
                heads.get(ref),
                stored[ref].agent_id in called,
                stored[ref].agent_id in cancelled,
            )
            for ref in refs
            if ref in heads or stored[ref].agent_id in called | cancelled
        ]

    async def _prune(self, tx: Transaction, changed: list[WorkingState], now: int) -> None:
        # Now and then is enough; the step is a part of the retention so that small ones hold too.
        step = max(1, min(1_000, self._retention.history_count // 2))
        for state in changed:
            is_due = state.version // step > state.stored.version // step
            if is_due or state.added_bytes > self._retention.history_bytes // 4:
                await tx.prune_agent(state.stored.agent_id, self._retention, now)


async def _load_states(tx: Transaction, entries: list[_Entry]) -> dict[AgentRef, StoredState]:
    """Load what the entries are about; only those from outside make an agent."""
    outer = dict.fromkeys(e.request.ref for e in entries if e.request.agent_id is None)
    inner = dict.fromkeys(e.request.ref for e in entries if e.request.ref not in outer)
    stored = await tx.load_states(list(outer)) if outer else {}
    return stored | await tx.find_states(list(inner)) if inner else stored


def _lives(entry: _Entry, stored: dict[AgentRef, StoredState]) -> bool:
    """Tell whether an entry's agent is there; a handler of a destroyed one gets an error."""
    ref, number = entry.request.ref, entry.request.agent_id
    head = stored.get(ref)
    if number is None or (head is not None and head.agent_id == number):
        return True
    entry.error = destroyed_error(ref)
    return False


async def _load_known(
    tx: Transaction, entries: list[_Entry], stored: dict[AgentRef, StoredState]
) -> Known:
    calls: list[tuple[int, str]] = []
    mutations: list[tuple[int, str]] = []
    for entry in entries:
        agent_id = stored[entry.request.ref].agent_id
        for mutation in entry.request.mutations:
            keys = calls if mutation.kind is MutationKind.CALL else mutations
            keys.append((agent_id, mutation.key))
    return Known(
        await tx.load_receipts(mutations) if mutations else {},
        await tx.load_invocations(calls) if calls else {},
    )
