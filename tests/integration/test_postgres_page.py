"""docs/postgres.md: its examples of sessions print what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import pytest

from tests.support.postgres_databases import PostgresDatabases
from tests.support.reference_tables import REFERENCE_TABLES
from tests.support.session import user

PAGE = (Path(__file__).parents[2] / "docs" / "postgres.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def example(name: str) -> tuple[Any, list[str]]:
    """Return a function of the page and the lines that it announces."""
    [block] = [block for block in BLOCKS if f"def {name}(" in block]
    namespace: dict[str, Any] = {"__name__": "page"}
    exec(compile(block, "docs/postgres.md", "exec"), namespace)
    return namespace[name], re.findall(r"# prints: (.*)", block)


async def test_a_session_over_a_connection(
    postgres: PostgresDatabases, capsys: pytest.CaptureFixture[str]
) -> None:
    """With blocks, a cached prompt, and a transaction of the user's."""
    chat, announced = example("chat")

    await chat(await postgres.migrated())

    assert capsys.readouterr().out.splitlines() == announced != []


async def test_bringing_the_reference_s_tables_over(
    postgres: PostgresDatabases, capsys: pytest.CaptureFixture[str]
) -> None:
    """Read where they are, then stored here."""
    bring_over, announced = example("bring_over")
    connection = await asyncpg.connect(postgres.as_administrator(await postgres.migrated()))
    await connection.execute(REFERENCE_TABLES)
    for message_id, parent_id in (("m1", None), ("m2", "m1")):
        await connection.execute(
            """INSERT INTO assistant_messages (id, session_id, parent_id, role, content)
            VALUES ($1, 'chat-1', $2, 'user', $3)""",
            message_id,
            parent_id,
            orjson.dumps(user(message_id)).decode(),
        )

    await bring_over(connection)

    assert capsys.readouterr().out.splitlines() == announced != []
    await connection.close()
