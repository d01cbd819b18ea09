"""Committing state mutations: decide in memory, write once, answer after the disk has it.

Requests of all agents of the process that arrive while a commit is running share the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agent_runtime.errors import (
    AUTHOR_ERRORS,
    AgentRuntimeError,
    HandlerDivergedError,
    IdempotencyConflictError,
    VersionConflictError,
)
from agent_runtime.identity import AgentRef
from agent_runtime.mutation import Mutation, MutationKind, Outcome, Receipt
from agent_runtime.state_change import StateRules, WorkingState, apply_mutation
from agent_runtime.storage.protocol import (
    HookRow,
    MutationRow,
    OutboxRow,
    Retention,
    Storage,
    StoredReceipt,
    StoredState,
    Transaction,
)

MAX_MUTATIONS = 5_000


@dataclass(slots=True)
class CommitRequest:
    """Mutations of one agent to commit together, in order, each succeeding or failing alone.

    Args:
        rules: What the agent's class says about its state.
        update: For a mutation of kind update: the function from the present value to the next.
        has_hook: The class defines `on_state_changed`.
        hook_depth: How many change hooks, one through the other, led to this request.
    """

    ref: AgentRef
    mutations: list[Mutation]
    rules: StateRules
    update: Callable[[Any], Any] | None = None
    has_hook: bool = False
    hook_depth: int = 0


@dataclass(frozen=True, slots=True)
class Committed:
    """The agent's head after a commit, as told to listeners."""

    ref: AgentRef
    state: StoredState
    mutation_count: int
    has_hooks: bool


@dataclass(slots=True)
class _Entry:
    request: CommitRequest
    future: asyncio.Future[list[Outcome]]
    outcomes: list[Outcome] = field(default_factory=list)
    error: BaseException | None = None


@dataclass(slots=True)
class _Writes:
    """Rows that one commit adds, and the heads that it replaces."""

    mutations: list[MutationRow] = field(default_factory=list)
    outbox: list[OutboxRow] = field(default_factory=list)
    hooks: list[HookRow] = field(default_factory=list)


class Committer:
    """Group commit of state mutations for one process.

    Args:
        storage: Where they go.
        on_commit: Called after each commit with the heads that changed.
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
        refs = list(dict.fromkeys(entry.request.ref for entry in entries))
        stored = await tx.load_states(refs)
        working = {ref: WorkingState(stored[ref]) for ref in refs}
        receipts = await tx.load_receipts(
            [
                (stored[entry.request.ref].agent_id, mutation.key)
                for entry in entries
                for mutation in entry.request.mutations
            ]
        )
        now = time.time_ns() // 1_000_000
        writes = _Writes()
        for entry in entries:
            _decide(entry, working[entry.request.ref], receipts, writes, now)
        changed = [state for state in working.values() if state.is_changed]
        heads = {id(state): state.head(now) for state in changed}
        if writes.mutations:
            await tx.add_mutations(writes.mutations)
            await tx.put_states(list(heads.values()))
            await tx.add_outbox(writes.outbox)
        if writes.hooks:
            await tx.add_hooks(writes.hooks)
        await self._prune(tx, changed, now)
        hooked = {row.agent_id for row in writes.hooks}
        return [
            Committed(
                ref,
                heads[id(state)],
                state.version - state.stored.version,
                state.stored.agent_id in hooked,
            )
            for ref, state in working.items()
            if state.is_changed
        ]

    async def _prune(self, tx: Transaction, changed: list[WorkingState], now: int) -> None:
        # Now and then is enough; the step is a part of the retention so that small ones hold too.
        step = max(1, min(1_000, self._retention.history_count // 2))
        for state in changed:
            is_due = state.version // step > state.stored.version // step
            if is_due or state.added_bytes > self._retention.history_bytes // 4:
                await tx.prune_agent(state.stored.agent_id, self._retention, now)


def _decide(
    entry: _Entry,
    working: WorkingState,
    receipts: dict[tuple[int, str], StoredReceipt],
    writes: _Writes,
    now: int,
) -> None:
    request = entry.request
    agent_id = working.stored.agent_id
    for mutation in request.mutations:
        print_ = mutation.fingerprint()
        # An init needs no key: it does nothing the second time by its nature.
        needs_key = mutation.kind is not MutationKind.INIT
        known = receipts.get((agent_id, mutation.key)) if needs_key else None
        if known is not None:
            entry.outcomes.append(_repeat(mutation, print_, known))
            continue
        expected = mutation.expected_version
        if expected is not None and expected != working.version:
            entry.outcomes.append(
                VersionConflictError(
                    f"{request.ref}: expected version {expected}, the state has version "
                    f"{working.version}; read it and decide again",
                    expected=expected,
                    actual=working.version,
                )
            )
            continue
        before = working.mark()
        try:
            changes = apply_mutation(working, request.rules, mutation, request.update)
        except AgentRuntimeError as error:
            working.restore(before)
            entry.outcomes.append(error)
            continue
        except AUTHOR_ERRORS as error:  # the update function's; its caller gets it as it is
            working.restore(before)
            entry.error = error
            return
        for change in changes:
            is_asked = needs_key and change.version == working.version
            key = mutation.key if is_asked else None
            writes.mutations.append(
                MutationRow(
                    agent_id,
                    change.version,
                    key,
                    print_ if is_asked else None,
                    change.kind,
                    mutation.source if is_asked else "server",
                    change.value,
                    change.is_full,
                    now,
                )
            )
            writes.outbox.append(OutboxRow(agent_id, "state", change.version, None, now))
            if request.has_hook:
                writes.hooks.append(HookRow(agent_id, change.version, request.hook_depth, now))
        if changes and needs_key:
            receipts[agent_id, mutation.key] = StoredReceipt(working.version, mutation.kind, print_)
        entry.outcomes.append(Receipt(working.version, applied=bool(changes)))


def _repeat(mutation: Mutation, fingerprint: str, known: StoredReceipt) -> Outcome:
    if fingerprint == known.fingerprint:
        return Receipt(known.version, applied=False, duplicate=True)
    if not mutation.key.isprintable():  # made by a handler's journal, not by a caller
        return HandlerDivergedError(
            f"the repeated handler asked for a {mutation.kind} where it had committed a "
            f"{known.kind} with another payload (version {known.version}); make its effects depend "
            "only on its arguments, the state and self.step results"
        )
    return IdempotencyConflictError(
        f"idempotency key {mutation.key!r} was used for another {known.kind} "
        f"(version {known.version}); use a new key for a new mutation",
        key=mutation.key,
        version=known.version,
    )
