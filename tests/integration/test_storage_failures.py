"""A database that refuses the runtime's own statements: callers hear of it, and of nothing else."""

from __future__ import annotations

import sqlite3

import pytest

from agent_runtime import Agent, callable
from agent_runtime.errors import StorageError
from agent_runtime.identity import AgentRef
from agent_runtime.storage.postgres import PostgresStorage
from agent_runtime.storage.sqlite import FILE_NAME
from agent_runtime.testing.storage_bench import put_one
from tests.conftest import Serve
from tests.support.live_gateway import live_gateway, next_frame
from tests.support.postgres_databases import PostgresDatabases

SECRET = "a-word-of-the-database"
REFUSE_VERSIONS = f"""
CREATE TRIGGER refuse BEFORE INSERT ON state_mutations BEGIN SELECT RAISE(ABORT, '{SECRET}'); END
"""


class Ledger(Agent):
    """Changes its state when asked to, and when it starts."""

    async def on_start(self) -> None:
        """Set the state of those that are named so."""
        if self.name == "starting":
            await self.set_state({"started": True})

    @callable()
    async def enter(self, entry: str) -> None:
        """Set the state."""
        await self.set_state({"entry": entry})


async def test_clients_are_not_told_what_the_database_said(serve: Serve) -> None:
    """Over HTTP and in the answer to a call, from a handler and from `on_start`."""
    async with live_gateway(serve, Ledger) as live:
        with sqlite3.connect(live.served.data_dir / FILE_NAME) as database:
            database.execute(REFUSE_VERSIONS)
        database.close()
        answers = [
            await live.http.post("/api/agents/Ledger/a/call/enter", json={"args": ["x"]}),
            await live.http.post("/api/agents/Ledger/starting/call/enter", json={"args": ["x"]}),
            await live.http.put("/api/agents/Ledger/a/state", json={}),
        ]
        async with live.connect("/agents/ledger/a") as socket:
            await socket.send('{"type":"rpc","id":"1","method":"enter","args":["x"]}')
            frame = await next_frame(socket, "rpc")

    said = "The database refused; nothing of this unit of work was stored."
    assert [answer.status_code for answer in answers] == [500, 500, 500]
    assert [answer.json()["detail"] for answer in answers] == [said, said, said]
    assert (frame["success"], frame["error"]) == (False, said)


async def test_postgres_is_quoted_in_the_log_only(
    postgres: PostgresDatabases, caplog: pytest.LogCaptureFixture
) -> None:
    """A broken rule of the schema is a `StorageError` without the names of tables."""
    url = await postgres.migrated()
    adding = f'ALTER TABLE agent_runtime.agents ADD CONSTRAINT "{SECRET}" CHECK (false)'
    await postgres.run(adding, url.rpartition("/")[2])
    storage = await PostgresStorage.open(url)
    try:
        with pytest.raises(StorageError) as refused:
            await storage.write(lambda tx: put_one(tx, AgentRef("Room", "a"), "1"))
    finally:
        await storage.close()

    assert type(refused.value) is StorageError
    assert SECRET not in str(refused.value)
    assert SECRET in caplog.text
