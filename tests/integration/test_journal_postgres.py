"""The journal of handlers on PostgreSQL: errors and tasks are found again there too."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from agent_runtime import Agent, Json
from agent_runtime.errors import SqlError, UnknownMessageError
from agent_runtime.storage.postgres import PostgresStorage
from tests.support.repeated_handler import Crash, RepeatedHandler
from tests.support.session_stores import u


class Ledger(Agent[Json]):
    """Writes in its own database, its state and a conversation."""


@pytest.fixture
def run(postgres_storage: PostgresStorage) -> RepeatedHandler[Ledger]:
    """The handlers of a ledger that nobody else uses."""
    return RepeatedHandler(postgres_storage, Ledger, uuid4().hex)


async def test_errors_are_recalled(run: RepeatedHandler[Ledger]) -> None:
    """What has failed in the agent's own database and in a conversation fails again."""

    async def handle(ledger: Ledger) -> list[str]:
        said = []
        for attempt in (
            lambda: ledger.sql("INSERT INTO log VALUES ($1)", "x"),
            lambda: ledger.session.add_compaction("s", "m1", "m1"),
        ):
            with pytest.raises((SqlError, UnknownMessageError)) as caught:
                await attempt()
            said.append(caught.value.message)
        await ledger.set_state("after")
        return said

    async def crash(ledger: Ledger) -> None:
        said.append(await handle(ledger))
        raise Crash

    async def meanwhile(ledger: Ledger) -> None:
        await ledger.sql("CREATE TABLE log (line TEXT)")
        await ledger.session.append_message(u("m1"))

    said: list[list[str]] = []
    await run.until_crash(crash)
    await run(meanwhile, "meanwhile")

    assert [await run(handle)] == said


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 7 AS n INTO copy",
        "SELECT nextval('ids') AS n",
        "SELECT add_line() AS n",
        "SELECT n FROM (SELECT add_line() AS n) AS hidden FOR UPDATE",
        "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT add_line()",
    ],
)
async def test_what_writes_though_it_selects_is_an_effect(
    run: RepeatedHandler[Ledger], query: str
) -> None:
    """A repeat gets the rows of the first run, and nothing is written twice."""

    async def prepare(ledger: Ledger) -> None:
        await ledger.sql("CREATE TABLE log (line INTEGER)")
        await ledger.sql("CREATE SEQUENCE ids")
        await ledger.sql(
            "CREATE FUNCTION add_line() RETURNS INTEGER LANGUAGE sql AS "
            "'INSERT INTO log SELECT COUNT(*) FROM log RETURNING line'"
        )

    async def handle(ledger: Ledger) -> list[dict[str, Json]]:
        return await ledger.sql(query)

    async def crash(ledger: Ledger) -> None:
        said.append(await handle(ledger))
        raise Crash

    async def count(ledger: Ledger) -> list[dict[str, Json]]:
        return await ledger.sql("SELECT COUNT(*) <= 1 AS once FROM log")

    said: list[list[dict[str, Json]]] = []
    await run(prepare, "prepare")
    await run.until_crash(crash)

    assert [await run(handle)] == said
    assert await run(count, "count") == [{"once": True}]


async def test_tasks_find_their_own_effects(run: RepeatedHandler[Ledger]) -> None:
    """Statements, states and messages of two tasks that cross, one crash after them."""

    async def task(ledger: Ledger, name: str) -> list[Json]:
        rows = await ledger.sql("INSERT INTO log VALUES ($1) RETURNING line", name)
        await ledger.session.append_message(u(name))
        return [rows, (await ledger.set_state(name)).version > 0]

    async def handle(ledger: Ledger) -> list[list[Json]]:
        await ledger.sql("CREATE TABLE IF NOT EXISTS log (line TEXT)")
        return [*await asyncio.gather(task(ledger, "a"), task(ledger, "b"))]

    async def crash(ledger: Ledger) -> None:
        await handle(ledger)
        raise Crash

    async def look(ledger: Ledger) -> list[Json]:
        lines = await ledger.sql("SELECT line FROM log ORDER BY line")
        return [lines, len(await ledger.session.get_history()), ledger.state_version]

    await run.until_crash(crash)
    assert await run(handle) == [[[{"line": "a"}], True], [[{"line": "b"}], True]]
    assert await run(look, "look") == [[{"line": "a"}, {"line": "b"}], 2, 2]
