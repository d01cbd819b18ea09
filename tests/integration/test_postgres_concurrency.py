"""Several processes on one PostgreSQL database: each is a storage with connections of its own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack

import asyncpg
import pytest

from agent_runtime.errors import AgentDestroyedError, StorageUnavailableError
from agent_runtime.hosting.destruction import destroy_rows
from agent_runtime.identity import AgentRef
from agent_runtime.mutation import Mutation, MutationKind
from agent_runtime.storage import postgres_changes
from agent_runtime.storage.postgres import PRIVATE, PostgresStorage
from agent_runtime.storage.protocol import DestroyedAgent, EffectRow, OutboxRow, Transaction
from agent_runtime.testing.storage_bench import OTHER, ROOM, put_one
from tests.support.eventually import assert_eventually
from tests.support.own_sql import own_sql
from tests.support.postgres_databases import PostgresDatabases


class Processes:
    """Opens storages on one database, as several processes would."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self.url = url
        self._stack = stack

    async def start(self, *, busy_timeout_seconds: float = 10.0) -> PostgresStorage:
        """Open one more."""
        storage = await PostgresStorage.open(self.url, busy_timeout_seconds=busy_timeout_seconds)
        self._stack.push_async_callback(storage.close)
        return storage

    async def connect(self) -> asyncpg.Connection:
        """Open a bare connection that sees the runtime's tables."""
        connection = await asyncpg.connect(
            self.url, server_settings={"search_path": "agent_runtime"}
        )
        self._stack.push_async_callback(connection.close)
        return connection


@pytest.fixture
async def processes(postgres: PostgresDatabases) -> AsyncIterator[Processes]:
    """A database for several storages."""
    async with AsyncExitStack() as stack:
        yield Processes(await postgres.migrated(), stack)


async def _number(storage: PostgresStorage, ref: AgentRef) -> int:
    return (await storage.write(lambda tx: tx.load_states([ref])))[ref].agent_id


async def test_versions_have_no_gap_and_no_twin(processes: Processes) -> None:
    """Increments of one agent from four processes all count, as if one after another."""
    storages = [await processes.start() for _ in range(4)]

    async def increment(tx: Transaction) -> int:
        state = (await tx.load_states([ROOM]))[ROOM].state or "0"
        return await put_one(tx, ROOM, str(int(state) + 1))

    async def work(storage: PostgresStorage) -> list[int]:
        return [await storage.write(increment) for _ in range(50)]

    await _number(storages[0], ROOM)
    versions = await asyncio.gather(*(work(storage) for storage in storages))

    assert sorted(itertools.chain(*versions)) == list(range(1, 201))
    head = await storages[0].read_state(ROOM)
    assert head is not None and head.state == "200"


async def test_new_agents_are_made_once(processes: Processes) -> None:
    """Processes that meet the same new agents in other orders agree on their numbers."""
    storages = [await processes.start() for _ in range(4)]
    refs = [AgentRef("Room", str(number)) for number in range(20)]
    orders = [refs, refs[::-1], refs[::2] + refs[1::2], refs[10:] + refs[:10]]

    found = await asyncio.gather(
        *(
            storage.write(lambda tx, order=order: tx.load_states(order))  # type: ignore[misc]
            for storage, order in zip(storages, orders, strict=True)
        )
    )

    assert all(states == found[0] for states in found)


async def test_readers_of_the_feed_miss_nothing(processes: Processes) -> None:
    """Whoever follows the feed while several processes write sees every entry once, in order."""
    writers = [await processes.start() for _ in range(4)]
    reader = await processes.start()
    numbers = [await _number(writer, AgentRef("Room", str(n))) for n, writer in enumerate(writers)]
    is_done = asyncio.Event()
    seen: list[tuple[int, int, int]] = []

    async def follow() -> None:
        while True:
            was_done = is_done.is_set()
            after = seen[-1][0] if seen else 0
            rows = await reader.read_outbox(after, 500)
            seen.extend((row.seq, row.agent_id, row.version) for row in rows)
            if not rows and was_done:
                return

    async def write(storage: PostgresStorage, number: int) -> None:
        for version in range(100):
            rows = [OutboxRow(number, "state", version, None, 1)] * (1 + version % 3)
            await storage.write(lambda tx, rows=rows: tx.add_outbox(rows))  # type: ignore[misc]

    following = asyncio.create_task(follow())
    await asyncio.gather(*(write(*pair) for pair in zip(writers, numbers, strict=True)))
    is_done.set()
    await following

    assert len(seen) == 4 * sum(1 + version % 3 for version in range(100))
    assert [seq for seq, _, _ in seen] == sorted({seq for seq, _, _ in seen})
    for number in numbers:
        versions = [version for _, agent, version in seen if agent == number]
        assert versions == sorted(versions)


async def test_a_feed_number_waits_for_the_one_before(processes: Processes) -> None:
    """While an entry is not committed, no later one is: not even one without our code."""
    storage = await processes.start()
    number = await _number(storage, ROOM)
    slow = await processes.connect()
    add = "INSERT INTO outbox (agent_id, kind, version, created_at) VALUES ($1, 'state', $2, 1)"
    transaction = slow.transaction()
    await transaction.start()
    await slow.execute(add, number, 1)
    row = OutboxRow(number, "state", 2, None, 1)
    second = asyncio.create_task(storage.write(lambda tx: tx.add_outbox([row])))

    async def it_waits() -> None:
        query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        assert await slow.fetchval(query) == 1

    await assert_eventually(it_waits)
    assert await storage.read_outbox(0, 10) == []
    await transaction.commit()
    await second

    assert [row.version for row in await storage.read_outbox(0, 10)] == [1, 2]


async def test_an_agent_that_others_hold_does_not_hold_up_the_rest(processes: Processes) -> None:
    """Of units that share a transaction, one that would wait gives way and runs afterwards."""
    storage = await processes.start()
    await storage.write(lambda tx: put_one(tx, ROOM, "1"))
    holder = await processes.connect()
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute("SELECT FROM agent_states FOR UPDATE")
    gate = asyncio.Event()

    async def first(tx: Transaction) -> int:
        await gate.wait()
        return await put_one(tx, OTHER, "1")

    units = [asyncio.create_task(storage.write(first))]
    units.append(asyncio.create_task(storage.write(lambda tx: put_one(tx, ROOM, "2"))))
    third = AgentRef("Room", "c")
    units.append(asyncio.create_task(storage.write(lambda tx: put_one(tx, third, "1"))))
    await asyncio.sleep(0)
    gate.set()
    assert await units[0] == 1
    assert await units[2] == 1
    assert not units[1].done()
    await transaction.rollback()

    assert await units[1] == 2


async def test_circles_of_waiting_are_untied(processes: Processes) -> None:
    """Units that take the same agents in other orders all succeed, run again where needed."""
    storages = [await processes.start() for _ in range(2)]
    for ref in (ROOM, OTHER):
        await _number(storages[0], ref)
    meeting = asyncio.Barrier(2)
    has_met = [False, False]

    async def crossing(tx: Transaction, turn: int) -> None:
        refs = [ROOM, OTHER] if turn == 0 else [OTHER, ROOM]
        await put_one(tx, refs[0], str(turn))
        if not has_met[turn]:
            has_met[turn] = True
            await meeting.wait()
        await put_one(tx, refs[1], str(turn))

    await asyncio.gather(
        *(
            storage.write(lambda tx, turn=turn: crossing(tx, turn))  # type: ignore[misc]
            for turn, storage in enumerate(storages)
        )
    )

    for ref in (ROOM, OTHER):
        assert [row.version for row in await storages[0].read_history(ref)] == [2, 1]


async def test_waiting_ends_with_a_retryable_error(processes: Processes) -> None:
    """An agent that somebody holds for too long is a storage that is not available."""
    storage = await processes.start(busy_timeout_seconds=0.1)
    await _number(storage, ROOM)
    holder = await processes.connect()
    async with holder.transaction():
        await holder.execute("SELECT FROM agent_states FOR UPDATE")
        with pytest.raises(StorageUnavailableError, match="another process"):
            await storage.write(lambda tx: put_one(tx, ROOM, "1"))

    assert await storage.write(lambda tx: put_one(tx, ROOM, "1")) == 1


async def test_a_commit_elsewhere_changes_the_mark(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notifications tell of others' entries in the feed without a question to the server."""
    monkeypatch.setattr(postgres_changes, "_SAFETY_SECONDS", 10**9)
    writer, reader = await processes.start(), await processes.start()
    number = await _number(writer, ROOM)
    row = OutboxRow(number, "state", 1, None, 1)
    mark = await reader.read_change_mark()

    async def it_has_changed() -> None:
        assert await reader.read_change_mark() != mark

    await assert_eventually(it_has_changed)  # it listens now
    for _ in range(3):
        mark = await reader.read_change_mark()
        await writer.write(lambda tx: tx.add_outbox([row]))
        await assert_eventually(it_has_changed)


async def test_effects_of_two_attempts_are_one(processes: Processes) -> None:
    """Two attempts of the same noted statement run it once, and both get its rows."""
    storages = [await processes.start() for _ in range(2)]
    number = await _number(storages[0], ROOM)
    await own_sql(storages[0], ROOM, "CREATE TABLE notes (id INTEGER)", ())
    query = "INSERT INTO notes SELECT count(*) FROM notes RETURNING id"
    for position in range(20):
        effect = EffectRow(number, "i", position, "sql", "print", None, 5)
        both = await asyncio.gather(
            *(storage.sql_once(ROOM, query, (), effect=effect) for storage in storages)
        )
        assert both[0][1] == both[1][1]

    rows = await own_sql(storages[0], ROOM, "SELECT id FROM notes ORDER BY id", ())
    assert [row["id"] for row in rows] == list(range(20))


async def test_statements_wait_without_a_connection(processes: Processes) -> None:
    """However many statements of one agent wait for each other, those of others run."""
    storage = await processes.start()
    numbers = [await _number(storage, ref) for ref in (ROOM, OTHER)]
    for ref in (ROOM, OTHER):
        await own_sql(storage, ref, "CREATE TABLE notes (id INTEGER)", ())
    place = await storage.sql_place(ROOM, numbers[0])

    def add(ref: AgentRef, number: int, position: int) -> Awaitable[object]:
        effect = EffectRow(number, "i", position, "sql", "print", None, 5)
        return storage.sql_once(ref, "INSERT INTO notes VALUES (1)", (), effect=effect)

    holder = await processes.connect()
    async with holder.transaction():
        await holder.execute(f"LOCK TABLE {place}.notes")
        waiting = [
            asyncio.ensure_future(add(ROOM, numbers[0], position))
            for position in range(2 * PRIVATE)
        ]
        await add(OTHER, numbers[1], 0)
        assert not any(each.done() for each in waiting)
    await asyncio.gather(*waiting)

    rows = await own_sql(storage, ROOM, "SELECT count(*) AS n FROM notes", ())
    assert rows == [{"n": 2 * PRIVATE}]


async def test_an_agent_is_destroyed_under_writers(processes: Processes) -> None:
    """Each life begins at version 1 and has no gap; nothing of a former one is left."""
    storages = [await processes.start() for _ in range(3)]
    numbers = set[int]()
    is_over = asyncio.Event()

    async def write(storage: PostgresStorage) -> None:
        while not is_over.is_set():
            await storage.write(lambda tx: put_one(tx, ROOM, "1"))

    writing = [asyncio.create_task(write(storage)) for storage in storages[:2]]
    for life in range(10):

        async def it_lives() -> None:
            head = await storages[2].read_state(ROOM)
            assert head is not None and head.version > 3 and head.agent_id not in numbers
            numbers.add(head.agent_id)

        await assert_eventually(it_lives)
        await destroy_rows(storages[2], ROOM, Mutation(f"end-{life}", MutationKind.DESTROY))
    is_over.set()
    await asyncio.gather(*writing)

    rows = await storages[2].read_history(ROOM, limit=10_000)
    assert [row.version for row in rows] == list(range(len(rows), 0, -1))
    connection = await processes.connect()
    agents = await connection.fetch("SELECT DISTINCT agent_id FROM state_mutations")
    assert len(agents) <= 1 and not {row[0] for row in agents} & numbers


async def test_a_destroy_and_what_comes_late_are_one_after_the_other(processes: Processes) -> None:
    """What another process adds is deleted with the agent or refused; the destroy never fails."""
    storages = [await processes.start() for _ in range(3)]
    connection = await processes.connect()
    kept = refused = 0
    for round_number in range(40):
        number = await _number(storages[0], ROOM)
        gone = DestroyedAgent(number, ROOM, f"d{round_number}", 0, 5)

        async def add(storage: PostgresStorage, position: int, number: int = number) -> None:
            nonlocal kept, refused
            effect = EffectRow(number, "i", position, "step", "print", "1", 5)
            try:
                await storage.write(lambda tx: tx.add_effect(effect))
                kept += 1
            except AgentDestroyedError:
                refused += 1

        async def work(storage: PostgresStorage, first: int, before: int = refused) -> None:
            for position in itertools.count(first, 2):
                await add(storage, position)
                if refused > before:
                    return

        async def destroy(gone: DestroyedAgent = gone, pause: int = round_number % 8) -> None:
            await asyncio.sleep(0.002 * pause)  # to meet the others at every point of their work
            await storages[0].write(lambda tx: tx.delete_agent(gone, outcome="{}"))

        await asyncio.gather(destroy(), work(storages[1], 0), work(storages[2], 1))
        assert await storages[0].read_living([number]) == set()

    assert await connection.fetchval("SELECT count(*) FROM invocation_effects") == 0
    assert kept > 0 and refused > 0
