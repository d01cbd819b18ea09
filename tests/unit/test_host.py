"""Committing on a real file without Temporal: what an author's code may do to others, and not."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, ClassVar

import pytest

from agent_runtime import Agent, AgentRef
from agent_runtime.errors import (
    AgentRuntimeError,
    AgentStartError,
    IdempotencyConflictError,
    StateRejectedError,
    StorageUnavailableError,
    UnknownAgentClassError,
)
from agent_runtime.hosting.host import AgentHost
from agent_runtime.mutation import AgentBatch, Mutation, MutationKind, Outcome, Receipt
from agent_runtime.registry import AgentRegistry
from agent_runtime.storage.sqlite import SqliteStorage
from tests.support.agents import Panic


class Wild(Agent):
    """Its validator and start do what they are told."""

    initial_state = {"n": 0}
    starts: ClassVar[dict[str, list[BaseException]]] = defaultdict(list)

    def __init__(self) -> None:
        self.started = 0

    async def on_start(self) -> None:
        """Raise what was prepared."""
        self.started += 1
        if self.starts[self.name]:
            raise self.starts[self.name].pop(0)

    def validate_state_change(self, next_state: Any, source: str) -> None:
        """Raise what the state asks for."""
        if next_state == "exit":
            raise SystemExit(3)
        if next_state == "panic":
            raise Panic("no memory")
        if next_state == "unspeakable":
            raise _Unspeakable
        if next_state == "set inside":
            next_state.append(1)


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Calm(Agent):
    """No hooks: shares commits with the wild one."""


@pytest.fixture
def host(storage: SqliteStorage) -> AgentHost:
    """A host on a fresh file."""
    return AgentHost(storage, AgentRegistry([Wild, Calm]), on_inbox=lambda ref: None)


async def _set(host: AgentHost, ref: AgentRef, *values: Any) -> list[Outcome]:
    batch = [Mutation(f"k-{value}", MutationKind.SET, value) for value in values]
    return await host.commit_batch(AgentBatch(ref, batch))


async def _refusal(host: AgentHost, ref: AgentRef) -> Outcome:
    """Return what refuses a set: final refusals are outcomes, passing troubles are raised."""
    try:
        [outcome] = await _set(host, ref, 1)
    except AgentRuntimeError as error:
        return error
    return outcome


async def test_wild_validators_refuse_their_own_alone(host: AgentHost) -> None:
    """Whatever a validator raises is a refusal of its mutation; all others commit."""
    wild, calm = AgentRef("Wild", "a"), AgentRef("Calm", "a")
    results = await asyncio.gather(
        _set(host, wild, 1, "exit", "unspeakable", "set inside", "panic", 2), _set(host, calm, 1)
    )

    kinds = [type(outcome).__name__ for outcome in results[0]]
    assert kinds == ["Receipt", *["StateRejectedError"] * 4, "Receipt"]
    assert results[1] == [Receipt(1)]
    texts = [outcome.message for outcome in results[0] if isinstance(outcome, StateRejectedError)]
    assert texts[:2] == ["3", "_Unspeakable"]


@pytest.mark.parametrize("error", [KeyError("oops"), SystemExit(3), Panic("oops")])
async def test_a_wild_update_fails_alone(host: AgentHost, error: BaseException) -> None:
    """What an update function raises reaches its caller as it is; the agent goes on."""
    ref = AgentRef("Wild", "a")

    def explode(state: Any) -> Any:
        raise error

    async with host.using(ref) as agent:
        update = [Mutation("u", MutationKind.UPDATE)]
        try:
            await host.commit(agent, update, explode, 0)
        except (KeyError, SystemExit, Panic) as raised:
            assert raised is error
        else:
            pytest.fail("the update did not raise")

    assert await _set(host, ref, 1) == [Receipt(1)]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("no"),
        SystemExit(3),
        StateRejectedError("no"),
        Panic("no"),
        asyncio.CancelledError(),
    ],
)
async def test_a_start_that_fails_is_tried_again(host: AgentHost, error: BaseException) -> None:
    """Any failing start is typed, and the next contact starts anew."""
    ref = AgentRef("Wild", f"start-{type(error).__name__}")
    Wild.starts[ref.name].append(error)

    refusal = await _refusal(host, ref)
    assert isinstance(refusal, AgentStartError)
    assert "on_start raised" in refusal.message
    assert await _set(host, ref, 1) == [Receipt(1)]


async def test_a_start_that_meets_a_busy_storage_is_tried_again(host: AgentHost) -> None:
    """A passing trouble of the storage keeps its type, so that the call is repeated."""
    ref = AgentRef("Wild", "busy")
    Wild.starts[ref.name].append(StorageUnavailableError("locked"))

    assert isinstance(await _refusal(host, ref), StorageUnavailableError)
    assert await _set(host, ref, 1) == [Receipt(1)]


async def test_a_start_whose_agent_cannot_be_made_is_tried_again(
    host: AgentHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trouble before the start hook itself does not leave the agent unstartable."""
    ref = AgentRef("Wild", "unmade")
    make, failures = host.agent_id, [StorageUnavailableError("locked")]

    async def agent_id(asked: AgentRef) -> int:
        if failures:
            raise failures.pop()
        return await make(asked)

    monkeypatch.setattr(host, "agent_id", agent_id)
    assert isinstance(await _refusal(host, ref), StorageUnavailableError)
    assert await _set(host, ref, 1) == [Receipt(1)]


async def test_one_start_for_all_who_wait(host: AgentHost) -> None:
    """Concurrent first contacts share a start; one that gives up does not end it."""
    ref = AgentRef("Wild", "shared")
    tasks = [asyncio.create_task(_set(host, ref, number)) for number in range(10)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    async with host.using(ref) as agent:
        assert isinstance(agent, Wild)
        assert agent.started == 1


async def test_an_init_is_no_repeat_of_a_mutation(host: AgentHost) -> None:
    """A caller may use any key, also the one that the library itself writes for an init."""
    ref = AgentRef("Wild", "dash")
    dash = Mutation("-", MutationKind.SET, 5)
    init = Mutation("-", MutationKind.INIT)

    outcomes = await host.commit_batch(AgentBatch(ref, [init, dash, init, dash]))

    assert outcomes == [
        Receipt(1),
        Receipt(2),
        Receipt(2, applied=False),
        Receipt(2, applied=False, duplicate=True),
    ]


async def test_a_key_within_one_batch_counts_once(host: AgentHost) -> None:
    """The second use of a key finds the first, although both are in one commit."""
    batch = [Mutation("k", MutationKind.SET, value) for value in (1, 1, 2)]

    outcomes = await host.commit_batch(AgentBatch(AgentRef("Calm", "a"), batch))

    assert outcomes[:2] == [Receipt(1), Receipt(1, applied=False, duplicate=True)]
    assert isinstance(outcomes[2], IdempotencyConflictError)


async def test_an_unknown_class_is_refused(host: AgentHost) -> None:
    """A class that is not served commits nothing and makes no agent."""
    assert isinstance(await _refusal(host, AgentRef("Nobody", "a")), UnknownAgentClassError)
    assert await host.storage.list_agents() == []
