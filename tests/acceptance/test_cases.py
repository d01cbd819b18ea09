"""Real bug reports as inputs (cases C01 to C07 and C11), and their siblings."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import new_class
from typing import Any, ClassVar

import pytest

from agent_runtime import Agent, Receipt, callable
from agent_runtime.call import EntityRun
from agent_runtime.errors import (
    HandlerError,
    IdempotencyConflictError,
    InvalidAgentError,
    StateRejectedError,
    StateTooLargeError,
    StorageUnavailableError,
    VersionConflictError,
)
from agent_runtime.identity import AgentRef, workflow_id
from agent_runtime.mutation import AgentBatch, Outcome
from tests.conftest import Serve, Served
from tests.support.agents import Bare, Counter
from tests.support.eventually import assert_eventually


class Noted(Agent):
    """Notes every change it is told of."""

    initial_state: Any = {}
    changes: ClassVar[list[tuple[str, Any]]] = []

    def validate_state_change(self, next_state: Any, source: str) -> None:
        """Scores are not negative."""
        if isinstance(next_state, dict) and next_state.get("score", 0) < 0:
            raise ValueError("score cannot be negative")

    async def on_state_changed(self, state: Any, source: str) -> None:
        """Note the change."""
        self.changes.append((self.name, state))

    @callable()
    async def explode(self) -> None:
        """A bug."""
        raise KeyError("oops")

    @callable()
    async def grow(self, size: int) -> None:
        """Add a blob of so many characters."""
        await self.merge_state({"blob": "x" * size})

    @callable()
    async def keep(self, text: str) -> list[dict[str, Any]]:
        """Write something to the own database and read it back."""
        await self.sql("CREATE TABLE IF NOT EXISTS notes (text TEXT)")
        await self.sql("INSERT INTO notes VALUES (?)", text)
        return await self.sql("SELECT text FROM notes")


def _changes(name: str) -> list[Any]:
    return [state for who, state in Noted.changes if who == name]


async def _versions_told(name: str, count: int) -> None:
    async def told() -> None:
        assert len(_changes(name)) == count

    await assert_eventually(told)


@pytest.mark.parametrize("by_signal", [False, True])
async def test_c01_a_late_duplicate_changes_nothing(serve: Serve, by_signal: bool) -> None:
    """The first call's outcome is returned, the state stays, two changes were told."""
    name = f"c01-{by_signal}"
    async with serve(Noted) as served:
        agent = served.client.agent("Noted", name)
        if by_signal:
            served.client.channel.contention(agent.ref).note()
        await agent.set_state({"n": 1}, idempotency_key="k1")
        await agent.set_state({"n": 2}, idempotency_key="k2")
        late = await agent.set_state({"n": 1}, idempotency_key="k1")

        assert late == Receipt(1, applied=False, duplicate=True)
        snapshot = await agent.get_state()
        assert (snapshot.value, snapshot.version) == ({"n": 2}, 2)
        await _versions_told(name, 2)
        assert len(await served.runtime.storage.read_outbox(0, 100)) == 2


async def test_c01_a_late_duplicate_with_another_payload_conflicts(serve: Serve) -> None:
    """A key stands for one payload, whatever the order of its keys."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "c01")
        await agent.set_state({"a": 1, "b": 2}, idempotency_key="k")
        assert (await agent.set_state({"b": 2, "a": 1}, idempotency_key="k")).duplicate
        for change in (
            agent.set_state({"a": 1}, idempotency_key="k"),
            agent.merge_state({"a": 1, "b": 2}, idempotency_key="k"),
            agent.reset_state(idempotency_key="k"),
            agent.set_state({"a": 1, "b": 2}, idempotency_key="k", expected_version=0),
        ):
            with pytest.raises(IdempotencyConflictError):
                await change


async def test_c02_a_key_outlives_runs_and_workers(serve: Serve) -> None:
    """`add(5, key="pay-7")` counts once, over a new run of the entity and a new worker."""
    short = EntityRun("", "", max_events=30)
    async with serve(Counter, entity=short) as served:
        agent = served.client.agent("Counter", "c02")
        results = [await agent.call("add_points", 5, idempotency_key="pay-7")]
        first = await _entity_run(served, agent.ref)
        for number in range(40):
            await agent.merge_state({"n": number})

        async def moved() -> None:
            assert await _entity_run(served, agent.ref) != first

        await assert_eventually(moved)
        results.append(await agent.call("add_points", 5, idempotency_key="pay-7"))
    async with serve(Counter, task_queue=served.task_queue) as served:
        agent = served.client.agent("Counter", "c02")
        results.append(await agent.call("add_points", 5, idempotency_key="pay-7"))
        assert results == [5, 5, 5]
        assert (await agent.get_state()).value["count"] == 5


@pytest.mark.parametrize("by_signal", [False, True])
async def test_c03_a_lost_acknowledgement_applies_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, by_signal: bool
) -> None:
    """The first attempt commits and then fails; the retry sees the work done."""
    name = f"c03-{by_signal}"
    async with serve(Noted) as served:
        agent = served.client.agent("Noted", name)
        await agent.set_state({"progress": 0})
        feed = await served.runtime.storage.read_outbox(0, 100)
        attempts = _lose_first_answer(served, monkeypatch)
        if by_signal:
            served.client.channel.contention(agent.ref).note()

        receipt = await agent.merge_state({"progress": 50})

        snapshot = await agent.get_state()
        assert (receipt.version, snapshot.value, snapshot.version) == (2, {"progress": 50}, 2)
        assert len(attempts) >= 2
        assert len(await served.runtime.storage.read_outbox(0, 100)) == len(feed) + 1
        await _versions_told(name, 2)


async def test_c04_a_burst_of_callers(serve: Serve) -> None:
    """25 concurrent increments all succeed, each once, within seconds."""
    async with serve(Counter) as served:
        agent = served.client.agent("Counter", "c04")
        await agent.get_state()
        began = time.monotonic()
        results = await asyncio.gather(*(agent.call("increment") for _ in range(25)))

        snapshot = await agent.get_state()
        assert (snapshot.value["count"], snapshot.version) == (25, 26)
        assert max(results) == 25
        assert time.monotonic() - began < 60


async def test_c05_compare_and_set(serve: Serve) -> None:
    """Of two who expect version 4 one wins; the other and the late one learn both versions."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "c05")
        for number in range(4):
            await agent.set_state({"n": number})
        results = await asyncio.gather(
            agent.set_state({"by": "a"}, expected_version=4),
            agent.set_state({"by": "b"}, expected_version=4),
            agent.merge_state({"by": "c"}, expected_version=3),
            return_exceptions=True,
        )

        winners = [result for result in results if isinstance(result, Receipt)]
        losers = [error for error in results if isinstance(error, VersionConflictError)]
        assert (winners, len(losers)) == ([Receipt(5)], 2)
        assert {error.details_map["expected"] for error in losers} == {3, 4}
        for error in losers:
            assert f"expected version {error.details_map['expected']}" in error.message
            assert "version 5" in error.message or error.details_map["actual"] == 4
        assert set((await agent.get_state()).value) == {"by"}


@pytest.mark.parametrize("way", ["set", "merge", "call", "by query"])
async def test_c06_a_state_too_large(serve: Serve, way: str) -> None:
    """Refused within moments with size and limit; the old state reads, a small update works."""
    value: Any = {"blob": "x" * 3_000_000}
    async with serve(Noted, has_storage=way != "by query") as served:
        agent = served.client.agent("Noted", "c06")
        await agent.set_state({"count": 1})
        began = time.monotonic()
        with pytest.raises(StateTooLargeError, match="keep bulk data") as caught:
            if way == "call":
                await agent.call("grow", 3_000_000)
            elif way == "merge":
                await agent.merge_state(value)
            else:
                await agent.set_state(value)
        assert time.monotonic() - began < 30
        assert caught.value.details_map["limit"] == 2_000_000
        assert f"{caught.value.details_map['size']} bytes" in caught.value.message
        assert (await agent.get_state()).value == {"count": 1}
        assert (await agent.merge_state({"small": True})).version == 2


async def test_c06_many_merges_cannot_pass_the_limit(serve: Serve) -> None:
    """The limit is that of the whole state, however small the steps towards it."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "c06")
        for number in range(4):
            await agent.merge_state({str(number): "x" * 450_000})
        with pytest.raises(StateTooLargeError):
            await agent.merge_state({"4": "x" * 450_000})
        assert (await agent.merge_state({"0": None})).version == 5
        assert (await agent.merge_state({"4": "x" * 450_000})).version == 6


async def test_c07_a_bug_wedges_nothing(serve: Serve) -> None:
    """A raising method and a raising validator fail once, typed; the next update succeeds."""
    async with serve(Noted) as served:
        agent = served.client.agent("Noted", "c07")
        with pytest.raises(HandlerError, match="explode: KeyError: 'oops'"):
            await agent.call("explode")
        with pytest.raises(StateRejectedError, match="score cannot be negative"):
            await agent.set_state({"score": -1})
        assert (await agent.set_state({"score": 1})).version == 1
        assert await _failed_tasks(served, agent.ref) == 0


async def test_c07_a_stored_state_that_no_longer_fits(serve: Serve) -> None:
    """A deployment with a narrower state type can still be talked to, and reset."""
    async with serve(Bare) as served:
        await served.client.agent("Bare", "c07").set_state({"old": "shape"})
    initial = {"initial_state": {"count": 0}}
    narrow = new_class(
        "Bare", (Agent[dict[str, int]],), exec_body=lambda body: body.update(initial)
    )
    async with serve(narrow, task_queue=served.task_queue) as served:
        agent = served.client.agent("Bare", "c07")
        assert (await agent.get_state()).value == {"old": "shape"}
        with pytest.raises(StateRejectedError, match="does not fit"):
            await agent.merge_state({"count": 1})
        assert (await agent.reset_state()).version == 2
        assert (await agent.get_state()).value == {"count": 0}


HOSTILE = [
    "../../evil",
    "/abs/path",
    "a/b",
    "CON",
    "room-1",
    "Room-1",
    "x" * 300,
    "ключ",
    "..",
    "%2e%2e",
    "a b",
    'it\'s "quoted"',
    "new\nline",
]


async def test_c11_hostile_names(serve: Serve, tmp_path: Path) -> None:
    """Every name works for state, calls and SQL; files stay in the folder; none share one."""
    async with serve(Noted) as served:
        for number, name in enumerate(HOSTILE):
            agent = served.client.agent("Noted", name)
            await agent.set_state({"n": number})
            assert await agent.call("keep", name) == [{"text": name}]
        for number, name in enumerate(HOSTILE):
            assert (await served.client.agent("Noted", name).get_state()).value == {"n": number}
        listed = await served.runtime.storage.list_agents(limit=100)
        assert {row.ref for row in listed} == {AgentRef("Noted", name) for name in HOSTILE}
    files = _private_files(tmp_path)
    stems = {path.name.split(".")[0].lower() for path in files}
    assert {path.parent for path in files} == {served.data_dir}
    assert len(stems) == len(HOSTILE)


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "x" * 513])
async def test_c11_what_is_refused_is_always_refused(serve: Serve, name: str) -> None:
    """Names that cannot be kept are refused at once, the same way each time."""
    async with serve(Noted) as served:
        for _ in range(2):
            with pytest.raises(InvalidAgentError, match="agent name"):
                served.client.agent("Noted", name)


def _private_files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and "sql-" in path.name}


async def _entity_run(served: Served, ref: AgentRef) -> str | None:
    handle = served.client.temporal.get_workflow_handle(workflow_id(served.task_queue, ref))
    return (await handle.describe()).run_id


async def _failed_tasks(served: Served, ref: AgentRef) -> int:
    handle = served.client.temporal.get_workflow_handle(workflow_id(served.task_queue, ref))
    events = (await handle.fetch_history()).events
    return sum(event.HasField("workflow_task_failed_event_attributes") for event in events)


def _lose_first_answer(served: Served, monkeypatch: pytest.MonkeyPatch) -> list[AgentBatch]:
    """Let the first commit succeed on disk and then fail on its way back."""
    host, attempts = served.runtime.host, list[AgentBatch]()
    commit = host.commit_batch

    async def commit_and_lose(batch: AgentBatch) -> list[Outcome]:
        outcomes = await commit(batch)
        attempts.append(batch)
        if len(attempts) == 1:
            raise StorageUnavailableError("the answer is lost")
        return outcomes

    monkeypatch.setattr(host, "commit_batch", commit_and_lose)
    return attempts
