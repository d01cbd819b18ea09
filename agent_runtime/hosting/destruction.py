"""Destroying agents (state-and-sync 13.3): all rows at once, what is beside them right after.

One transaction deletes the agent and notes that it did. Whatever a crash leaves undone after it,
the agent's own database and outcomes that callers wait for, is found by that note and finished by
whoever wakes the agent's handlers next.
"""

from __future__ import annotations

from agent_runtime.clock import now_milliseconds
from agent_runtime.errors import (
    AgentDestroyedError,
    AgentRuntimeError,
    IdempotencyConflictError,
    VersionConflictError,
)
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import pack
from agent_runtime.mutation import Mutation, Receipt
from agent_runtime.storage.protocol import DestroyedAgent, Storage, StoredState, Transaction

_PAGE = 100


async def destroy_rows(
    storage: Storage,
    ref: AgentRef,
    mutation: Mutation,
    *,
    agent_id: int | None = None,
    without_call: str | None = None,
) -> tuple[DestroyedAgent, Receipt]:
    """Delete all rows of an agent; `finish_destroy` does the rest.

    Idempotency: the mutation's key is remembered with the agent's end; a repeat destroys nothing of
    the next life.

    Args:
        agent_id: Destroy only the agent with this number.
        without_call: Key of the call that asks for it, which has its own outcome later.

    Raises:
        AgentDestroyedError: The agent with that number is destroyed already.
        VersionConflictError: Another version is present than the mutation expects.
        IdempotencyConflictError: The key was used for a mutation of the state.
    """
    now = now_milliseconds()

    async def unit(tx: Transaction) -> tuple[DestroyedAgent, Receipt]:
        earlier = await tx.find_destroyed(ref, mutation.key)
        if earlier is not None:
            return earlier, Receipt(earlier.version, applied=False, duplicate=True)
        if agent_id is None:
            head = (await tx.load_states([ref]))[ref]
        else:
            head = _living((await tx.find_states([ref])).get(ref), ref, agent_id)
        await _check(tx, ref, mutation, head)
        gone = DestroyedAgent(head.agent_id, ref, mutation.key, head.version, now)
        await tx.delete_agent(gone, outcome=_outcome(ref), without_call=without_call)
        return gone, Receipt(head.version)

    return await storage.write(unit)


async def finish_destroy(storage: Storage, gone: DestroyedAgent) -> None:
    """Delete what an agent had beside its rows, and give up the calls without an outcome."""
    await storage.delete_sql(gone.ref, gone.agent_id)
    outcome = _outcome(gone.ref)
    await storage.write(lambda tx: tx.finish_destroyed(gone.agent_id, outcome))


async def finish_destroys(
    storage: Storage, *, ref: AgentRef | None = None, before: int | None = None
) -> None:
    """Finish what was cut short: of one agent or of all, destroyed before a time in milliseconds.

    To be called when no handler of those agents' former lives runs any more.
    """
    bound = now_milliseconds() + 1 if before is None else before
    while unfinished := await storage.read_unfinished(bound, _PAGE, ref=ref):
        for gone in unfinished:
            await finish_destroy(storage, gone)


def _living(head: StoredState | None, ref: AgentRef, agent_id: int) -> StoredState:
    if head is None or head.agent_id != agent_id:
        raise destroyed_error(ref)
    return head


async def _check(tx: Transaction, ref: AgentRef, mutation: Mutation, head: StoredState) -> None:
    expected = mutation.expected_version
    if expected is not None and expected != head.version:
        raise VersionConflictError(
            f"{ref}: expected version {expected}, the state has version {head.version}; "
            "nothing was destroyed",
            expected=expected,
            actual=head.version,
        )
    for receipt in (await tx.load_receipts([(head.agent_id, mutation.key)])).values():
        raise IdempotencyConflictError(
            f"idempotency key {mutation.key!r} was used for a {receipt.kind} "
            f"(version {receipt.version}); use a new key to destroy the agent",
            key=mutation.key,
            version=receipt.version,
        )


def destroyed_error(ref: AgentRef) -> AgentRuntimeError:
    """Return what late effects and callers of a destroyed agent are told."""
    return AgentDestroyedError(f"{ref} was destroyed meanwhile; nothing more is done for it")


def _outcome(ref: AgentRef) -> str:
    return pack({"error": destroyed_error(ref).to_record()}).decode()
