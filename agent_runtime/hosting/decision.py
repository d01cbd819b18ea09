"""Deciding a request: what each mutation becomes, as rows to write and an outcome to return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent_runtime.errors import (
    AgentRuntimeError,
    HandlerDivergedError,
    IdempotencyConflictError,
    VersionConflictError,
)
from agent_runtime.hosting.state_change import Change, StateRules, WorkingState, apply_mutation
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import fingerprint, pack
from agent_runtime.mutation import Mutation, MutationKind, Outcome, Receipt
from agent_runtime.storage.protocol import (
    InvocationRow,
    MutationRow,
    OutboxRow,
    StoredReceipt,
)

HOOK = "hook"
CALL = "call"

Key = tuple[int, str]


@dataclass(slots=True)
class CommitRequest:
    """Mutations of one agent to commit together, in order, each succeeding or failing alone.

    Args:
        rules: What the agent's class says about its state and methods.
        update: For a mutation of kind update: the function from the present value to the next.
        has_hook: The class defines `on_state_changed`.
        hook_depth: How many change hooks, one through the other, led to this request.
        agent_id: For code of the agent: the number of the one it runs for; another is not touched.
    """

    ref: AgentRef
    mutations: list[Mutation]
    rules: StateRules
    update: Callable[[Any], Any] | None = None
    has_hook: bool = False
    hook_depth: int = 0
    agent_id: int | None = None


@dataclass(slots=True)
class Known:
    """What is stored under the keys of a group of requests; grows as they are decided."""

    receipts: dict[Key, StoredReceipt]
    inbox: dict[Key, InvocationRow]


@dataclass(slots=True)
class Writes:
    """Rows that one commit adds."""

    mutations: list[MutationRow] = field(default_factory=list)
    outbox: list[OutboxRow] = field(default_factory=list)
    inbox: list[InvocationRow] = field(default_factory=list)
    cancellations: list[Key] = field(default_factory=list)


def decide(
    request: CommitRequest, working: WorkingState, known: Known, writes: Writes, now: int
) -> list[Outcome]:
    """Apply a request to the working state and return an outcome for each of its mutations.

    What the author's update function raises is let through; the state is then as before.
    """
    return [
        _decide_call(request, mutation, working, known, writes, now)
        if mutation.kind is MutationKind.CALL
        else _decide_cancel(mutation, working, writes)
        if mutation.kind is MutationKind.CANCEL
        else _decide_mutation(request, mutation, working, known, writes, now)
        for mutation in request.mutations
    ]


def _decide_mutation(
    request: CommitRequest,
    mutation: Mutation,
    working: WorkingState,
    known: Known,
    writes: Writes,
    now: int,
) -> Outcome:
    agent_id = working.stored.agent_id
    digest = mutation.fingerprint()
    # An init needs no key: it does nothing the second time by its nature.
    needs_key = mutation.kind is not MutationKind.INIT
    receipt = known.receipts.get((agent_id, mutation.key)) if needs_key else None
    if receipt is not None:
        return _repeat(mutation, digest, receipt)
    expected = mutation.expected_version
    if expected is not None and expected != working.version:
        return VersionConflictError(
            f"{request.ref}: expected version {expected}, the state has version "
            f"{working.version}; read it and decide again",
            expected=expected,
            actual=working.version,
        )
    before = working.mark()
    try:
        changes = apply_mutation(working, request.rules, mutation, request.update)
    except AgentRuntimeError as error:
        working.restore(before)
        return error
    except BaseException:
        working.restore(before)
        raise
    for change in changes:
        is_asked = needs_key and change.version == working.version
        asked = (mutation.key, digest, mutation.source) if is_asked else (None, None, "server")
        writes.mutations.append(_mutation_row(agent_id, change, asked, now))
        writes.outbox.append(OutboxRow(agent_id, "state", change.version, None, now))
        if request.has_hook:
            writes.inbox.append(_hook_row(agent_id, change.version, request.hook_depth, now))
    if changes and needs_key:
        known.receipts[agent_id, mutation.key] = StoredReceipt(
            working.version, mutation.kind, digest
        )
    return Receipt(working.version, applied=bool(changes))


def _decide_call(
    request: CommitRequest,
    mutation: Mutation,
    working: WorkingState,
    known: Known,
    writes: Writes,
    now: int,
) -> Outcome:
    key = (working.stored.agent_id, mutation.key)
    try:
        method, args = mutation.value["method"], mutation.value["args"]
        event = mutation.value.get("event", "")
        request.rules.check_call(method, args, event)
    except AgentRuntimeError as error:
        return error
    digest = call_fingerprint(method, args)
    row = known.inbox.get(key)
    if row is not None:
        if row.fingerprint == digest:
            return Receipt(working.version, applied=False, duplicate=True)
        return IdempotencyConflictError(
            f"idempotency key {mutation.key!r} was used for another call of {row.method}; "
            "use a new key for a new call",
            key=mutation.key,
        )
    text = pack(mutation.value).decode()
    known.inbox[key] = InvocationRow(*key, event or CALL, method, text, digest, now)
    writes.inbox.append(known.inbox[key])
    return Receipt(working.version)


def _decide_cancel(mutation: Mutation, working: WorkingState, writes: Writes) -> Outcome:
    writes.cancellations.append((working.stored.agent_id, mutation.key))
    return Receipt(working.version)


def call_fingerprint(method: str, args: list[Any]) -> str:
    """Digest what a call's idempotency key stands for."""
    return fingerprint([method, args])


def hook_key(version: int) -> str:
    """Return the inbox key of a version's change hook; callers' keys cannot be like it."""
    return f"\x1fstate_changed/{version}"


def _hook_row(agent_id: int, version: int, depth: int, now: int) -> InvocationRow:
    text = pack({"version": version, "depth": depth}).decode()
    return InvocationRow(agent_id, hook_key(version), HOOK, "on_state_changed", text, "", now)


def _mutation_row(
    agent_id: int, change: Change, asked: tuple[str | None, str | None, str], now: int
) -> MutationRow:
    key, digest, source = asked
    return MutationRow(
        agent_id,
        change.version,
        key,
        digest,
        change.kind,
        source,
        change.value,
        change.is_full,
        now,
    )


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
