"""Committing in this process: which answers count, and what goes through Temporal all the same."""

from __future__ import annotations

import asyncio

import pytest

from agent_runtime.client import direct_commit
from agent_runtime.client.direct_commit import commit_directly
from agent_runtime.errors import (
    AgentRuntimeError,
    InternalError,
    StateRejectedError,
    StorageFullError,
    StorageUnavailableError,
    UnknownAgentClassError,
)
from agent_runtime.identity import AgentRef
from agent_runtime.mutation import (
    AgentBatch,
    Mutation,
    MutationKind,
    Outcome,
    Receipt,
    encode_mutation,
)

REF = AgentRef("Board", "a")
TWO = [encode_mutation(Mutation(key, MutationKind.SET, {"n": [1]})) for key in ("first", "second")]


async def _commit(*outcomes: Outcome) -> list[Outcome] | None:
    async def commit(batch: AgentBatch) -> list[Outcome]:
        return list(outcomes)

    return await commit_directly(commit, REF, TWO)


async def _fail(error: Exception) -> list[Outcome] | None:
    async def commit(batch: AgentBatch) -> list[Outcome]:
        raise error

    return await commit_directly(commit, REF, TWO)


async def test_outcomes_are_passed_on_one_for_each_mutation() -> None:
    """A refusal beside a receipt too."""
    outcomes: list[Outcome] = [Receipt(1), StateRejectedError("no")]

    assert await _commit(*outcomes) == outcomes


async def test_the_committer_gets_values_of_its_own() -> None:
    """What it keeps, its caller cannot change."""
    batches: list[AgentBatch] = []

    async def commit(batch: AgentBatch) -> list[Outcome]:
        batches.append(batch)
        return [Receipt(1), Receipt(2)]

    await commit_directly(commit, REF, TWO)

    [batch] = batches
    assert [mutation.value for mutation in batch.mutations] == [{"n": [1]}, {"n": [1]}]
    assert batch.mutations[0].value is not batch.mutations[1].value


async def test_a_class_that_is_not_served_here_goes_through_temporal() -> None:
    """Another worker may serve it."""
    unknown = UnknownAgentClassError("no agent class Board", class_name="Board")

    assert await _commit(unknown, unknown) is None


async def test_an_unanswering_database_goes_through_temporal() -> None:
    """Where the request is kept until it answers."""
    assert await _fail(StorageUnavailableError("locked")) is None


async def test_an_attempt_that_takes_too_long_goes_through_temporal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have happened; the same keys tell then."""
    monkeypatch.setattr(direct_commit, "_COMMIT_SECONDS", 0.01)

    async def commit(batch: AgentBatch) -> list[Outcome]:
        await asyncio.Event().wait()
        return []

    assert await commit_directly(commit, REF, TWO) is None


@pytest.mark.parametrize(
    ("raised", "told"),
    [(StorageFullError("no space"), StorageFullError), (KeyError(1), InternalError)],
)
async def test_what_no_repetition_mends_is_told_to_each(
    raised: Exception, told: type[AgentRuntimeError]
) -> None:
    """A bug too; nobody waits for an endless retry."""
    outcomes = await _fail(raised)

    assert [type(outcome) for outcome in outcomes or []] == [told, told]
