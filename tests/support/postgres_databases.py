"""Databases of their own on one PostgreSQL server of the test run, with the roles of the docs."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg

from agent_runtime.local.postgres_server import PostgresServer
from agent_runtime.storage.postgres_migrations import migrate

PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"
OWNER = "agent_owner"
APP = "agent_app"
SQL_ROLE = "agent_sql"

_TEMPLATE = "migrated"


class PostgresDatabases:
    """Makes databases with the schema in them, by copying one that has it."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self._has_template = False
        blocks = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
        self._roles, self._make_database, self._grants = blocks

    async def empty(self) -> str:
        """Return the address, as its owner, of a new database without a schema."""
        name = await self._copy("template1")
        return self.server.url(name)

    async def migrated(self) -> str:
        """Return the address, for a worker's role, of a new database with the schema."""
        await self._make_template()
        name = await self._copy(_TEMPLATE)
        # Rights on the database itself are not copied.
        await self.run(f"GRANT CREATE ON DATABASE {name} TO {APP}")
        return self.server.url(name, user=APP)

    def as_owner(self, url: str) -> str:
        """Return a database's address for the role that migrates."""
        return self.server.url(urlsplit(url).path.strip("/"), user=OWNER)

    def as_administrator(self, url: str) -> str:
        """Return a database's address for the role that may do everything."""
        return self.server.url(urlsplit(url).path.strip("/"))

    async def run(self, statements: str, database: str = "postgres") -> None:
        """Run statements as the server's administrator."""
        connection = await asyncpg.connect(self.server.url(database))
        try:
            await connection.execute(statements)
        finally:
            await connection.close()

    async def _make_template(self) -> None:
        if self._has_template:
            return
        await self.run(self._roles)
        await self.run(self._make_database.replace("agents", _TEMPLATE))
        await self.run(self._grants.replace("DATABASE agents", f"DATABASE {_TEMPLATE}"), _TEMPLATE)
        await migrate(self.server.url(_TEMPLATE, user=OWNER))
        self._has_template = True

    async def _copy(self, template: str) -> str:
        name = f"test_{uuid4().hex[:12]}"
        await self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name
