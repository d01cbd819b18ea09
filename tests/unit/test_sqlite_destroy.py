"""A destroyed agent leaves no row in any table, whatever tables there are."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from agent_runtime.identity import AgentRef
from agent_runtime.storage.protocol import DestroyedAgent
from agent_runtime.storage.sqlite import SqliteStorage
from agent_runtime.testing.storage_bench import OTHER, ROOM

# The feed tells of the end, and keeps its rows as long as any; these two remember the destroy.
KEPT = {"outbox", "destroyed_agents", "destroyed_calls"}

SEARCHED = {"message_search": "messages", "entry_search": "search_entries"}
"""Tables of the search, whose rows have the number of what is searched for."""

Rows = dict[str, dict[str, Any]]


async def _query(storage: SqliteStorage, statement: str) -> list[Any]:
    return list(await storage._connection.execute_fetchall(statement))


async def _owned_tables(storage: SqliteStorage) -> dict[str, dict[str, tuple[str, str]]]:
    """Return the tables that hold rows of agents, with where their columns refer to."""
    tables = await _query(
        storage,
        "SELECT m.name FROM sqlite_master m JOIN pragma_table_list(m.name) l "
        "WHERE m.type = 'table' AND l.type IN ('table', 'virtual') ORDER BY m.rowid",
    )
    owned: dict[str, dict[str, tuple[str, str]]] = {}
    for (table,) in tables:
        references = {
            row[3]: (row[2], row[4])
            for row in await _query(storage, f"PRAGMA foreign_key_list({table})")
        }
        columns = {row[1] for row in await _query(storage, f"PRAGMA table_info({table})")}
        if table in SEARCHED:
            references["rowid"] = (SEARCHED[table], "number")
        refers = any(parent in owned for parent, _ in references.values())
        if table == "agents" or "agent_id" in columns or refers:
            owned[table] = references
    return owned


async def _fill(storage: SqliteStorage, ref: AgentRef, number: int) -> None:
    """Put one row into every table that holds rows of agents."""
    rows: Rows = {}
    for table, references in (await _owned_tables(storage)).items():
        if table in KEPT:
            continue
        fields: dict[str, Any] = {}
        if table in SEARCHED:
            fields["rowid"] = rows[SEARCHED[table]]["number"]
        for _, column, kind, needed, default, key in await _query(
            storage, f"PRAGMA table_info({table})"
        ):
            if column in references:
                parent, parent_column = references[column]
                fields[column] = rows[parent][parent_column]
            elif (table, column) == ("agents", "id") or column == "agent_id":
                fields[column] = number
            elif (needed and default is None) or (key and kind != "INTEGER"):
                is_text = kind in ("TEXT", "")
                fields[column] = f"{ref.name}-{column}" if is_text else number
            elif key:
                fields[column] = number
        if table == "agents":
            fields |= {"class_name": ref.class_name, "name": ref.name}
        names, marks = ", ".join(fields), ", ".join("?" * len(fields))
        await storage._connection.execute_fetchall(
            f"INSERT INTO {table} ({names}) VALUES ({marks})", list(fields.values())
        )
        rows[table] = fields


async def _counts(storage: SqliteStorage) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for table in await _owned_tables(storage):
        if table not in KEPT:
            [(counts[table],)] = await _query(storage, f"SELECT COUNT(*) FROM {table}")
    return dict(counts)


async def test_w026_no_table_keeps_a_row(storage: SqliteStorage) -> None:
    """Every table with an agent's number, or that refers to one, is empty of it; others' stay."""
    await _fill(storage, ROOM, 1)
    await _fill(storage, OTHER, 2)
    assert set((await _counts(storage)).values()) == {2}

    gone = DestroyedAgent(1, ROOM, "d", 1, 5)
    await storage.write(lambda tx: tx.delete_agent(gone, outcome="{}"))

    assert set((await _counts(storage)).values()) == {1}
    assert [row.ref for row in await storage.list_agents()] == [OTHER]


async def test_what_is_kept_is_dropped_in_time(storage: SqliteStorage) -> None:
    """What tells of the end and remembers it goes with the retention of its kind."""
    await _fill(storage, ROOM, 1)
    gone = DestroyedAgent(1, ROOM, "d", 1, 5)
    await storage.write(lambda tx: tx.delete_agent(gone, outcome="{}"))
    await storage.write(lambda tx: tx.finish_destroyed(1, "{}"))

    await storage.write(lambda tx: tx.prune_feed(6))
    await storage.write(lambda tx: tx.prune_destroyed(6))

    for table in KEPT:
        assert await _query(storage, f"SELECT * FROM {table}") == []


async def test_the_tables_are_found(storage: SqliteStorage) -> None:
    """The test above looks at the tables that it should."""
    expected = {"agents", "agent_states", "state_mutations", "invocations", "connections"}
    found = set(await _owned_tables(storage))
    virtual = await _query(storage, "SELECT name FROM pragma_table_list WHERE type = 'virtual'")

    assert {*expected, "messages", "search_entries", *KEPT} <= found
    assert {name for (name,) in virtual} == set(SEARCHED)
