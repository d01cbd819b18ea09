"""Checks of the agents' own SQL, in words that the dialects of both engines share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent_runtime.errors import SqlError, StorageError
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.storage.effect_key import inner_key
from agent_runtime.storage.protocol import EffectRow
from agent_runtime.testing.storage_bench import (
    OTHER,
    ROOM,
    StorageBench,
    StorageCheck,
    expect,
    expect_error,
)

_TABLE = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"
_ADD = """INSERT INTO notes (id, text) SELECT COALESCE(MAX(id), 0) + 1, ? FROM notes
    RETURNING id, text"""


async def _once(
    bench: StorageBench, position: int, query: str, *params: Json
) -> tuple[EffectRow, list[dict[str, Json]]]:
    number = await bench.agent_id(ROOM)
    effect = EffectRow(number, "i", position, "sql", f"print-{position}", None, 5)
    return await bench.storage.sql_once(ROOM, query, params, effect=effect)


async def _texts(bench: StorageBench, ref: AgentRef = ROOM) -> list[Json]:
    return [row["text"] for row in await bench.sql(ref, "SELECT * FROM notes", ())]


async def rows_are_objects(bench: StorageBench) -> None:
    """Rows come as column name to value; statements without rows give an empty list."""
    expect([], await bench.sql(ROOM, _TABLE, ()))
    expect([{"id": 1, "text": "a"}], await bench.sql(ROOM, _ADD, ["a"]))
    rows = await bench.sql(ROOM, "SELECT text, id * 2 AS twice FROM notes", ())
    expect([{"text": "a", "twice": 2}], rows)
    expect([], await bench.sql(ROOM, "SELECT * FROM notes WHERE id = ?", [9]))


async def values_are_bound(bench: StorageBench) -> None:
    """Values arrive as what they are: nothing in them is ever read as SQL."""
    text = "'); DROP TABLE notes; --"
    await bench.sql(ROOM, _TABLE, ())
    await bench.sql(ROOM, _ADD, [text])
    expect([text], await _texts(bench))
    [row] = await bench.sql(
        ROOM, "SELECT ? AS n, ? AS i, ? AS r, ? AS t, ? AS b", [None, 2**62, 0.5, "я?", True]
    )
    expect({"n": None, "i": 2**62, "r": 0.5, "t": "я?", "b": 1}, row)
    [row] = await bench.sql(ROOM, "SELECT '?' AS q, ? AS t -- ?", ["x"])
    expect({"q": "?", "t": "x"}, row, "marks in texts and comments are no placeholders")


async def agents_have_their_own_tables(bench: StorageBench) -> None:
    """A table of one agent is unknown to every other, names that look alike included."""
    await bench.sql(ROOM, _TABLE, ())
    for name in ("b", "A", "a ", "a/"):
        await expect_error(SqlError, _texts(bench, AgentRef("Room", name)))
    await expect_error(SqlError, _texts(bench, AgentRef("ROOM", "a")))
    expect([], await _texts(bench))


async def a_failing_statement_changes_nothing(bench: StorageBench) -> None:
    """Wrong SQL, broken rules and unknown tables are `SqlError` and leave all as it was."""
    await bench.sql(ROOM, _TABLE, ())
    await bench.sql(ROOM, _ADD, ["kept"])
    for query, params in (
        ("SELEKT 1", ()),
        ("SELECT * FROM nowhere", ()),
        ("SELECT ?", ()),
        ("INSERT INTO notes (id, text) VALUES (2, 'x'), (1, 'y')", ()),
        ("SELECT 1; SELECT 2", ()),
    ):
        await expect_error(SqlError, bench.sql(ROOM, query, params))
    expect(["kept"], await _texts(bench))


async def a_noted_statement_runs_once(bench: StorageBench) -> None:
    """A repeat of a noted statement returns the first rows and runs nothing."""
    await bench.sql(ROOM, _TABLE, ())
    first, rows = await _once(bench, 0, _ADD, "a")
    again, same = await _once(bench, 0, _ADD, "other")
    expect([{"id": 1, "text": "a"}], rows)
    expect(rows, same)
    expect((first.kind, first.fingerprint), (again.kind, again.fingerprint))
    await _once(bench, 1, _ADD, "b")
    expect(["a", "b"], await _texts(bench))


async def noted_rows_keep_their_types(bench: StorageBench) -> None:
    """The rows that a repeat gets are those of the first run, bytes included."""
    query = "INSERT INTO notes (id) VALUES (1) RETURNING ? AS a, ? AS b, ? AS c, ? AS d"
    await bench.sql(ROOM, _TABLE, ())
    _, rows = await _once(bench, 0, query, b"\x00\xff", 1.5, None, "t")
    _, same = await _once(bench, 0, query, b"\x00\xff", 1.5, None, "t")
    expect([{"a": b"\x00\xff", "b": 1.5, "c": None, "d": "t"}], rows)
    expect(rows, same)


async def a_failing_noted_statement_leaves_no_note(bench: StorageBench) -> None:
    """Statement and note are both there or neither is."""
    await expect_error(SqlError, _once(bench, 0, _ADD, "a"))
    await bench.sql(ROOM, _TABLE, ())
    await _once(bench, 0, _ADD, "b")
    expect(["b"], await _texts(bench))


async def notes_are_read_by_invocation(bench: StorageBench) -> None:
    """The notes of one invocation come by position; other agents have none."""
    await bench.sql(ROOM, _TABLE, ())
    for position in (3, 1):
        await _once(bench, position, _ADD, str(position))
    effects = await bench.storage.sql_effects(ROOM, await bench.agent_id(), "i")
    expect([1, 3], [effect.position for effect in effects])
    expect(["print-1", "print-3"], [effect.fingerprint for effect in effects])
    expect([], await bench.storage.sql_effects(ROOM, await bench.agent_id(), "j"))
    expect([], await bench.storage.sql_effects(OTHER, await bench.agent_id(OTHER), "i"))


async def notes_of_an_ended_invocation_go(bench: StorageBench) -> None:
    """Once forgotten, notes go by the agent's next write or a restart; others' stay."""
    number = await bench.agent_id(ROOM)
    await bench.sql(ROOM, _TABLE, ())

    async def note(journal: str) -> None:
        effect = EffectRow(number, journal, 0, "sql", "print", None, 5)
        await bench.storage.sql_once(ROOM, _ADD, ["x"], effect=effect)

    async def kept(*journals: str) -> list[int]:
        return [len(await bench.storage.sql_effects(ROOM, number, each)) for each in journals]

    async def end(invocation: str) -> None:
        await bench.storage.write(lambda tx: tx.delete_invocations([(number, invocation)]))
        await bench.storage.forget_sql_effects(ROOM, number, invocation)

    inner = inner_key("i", 3)
    for journal in ("i", inner, "i2", "j"):
        await note(journal)
    await end("i")
    await note("k")
    expect([0, 0, 1, 1, 1], await kept("i", inner, "i2", "j", "k"))
    await end("j")
    await bench.reopen()
    expect([1, 0, 1], await kept("i2", "j", "k"))
    await end("k")
    await bench.reopen()
    expect([1, 0], await kept("i2", "k"))
    expect(5, len(await _texts(bench)))


async def concurrent_statements_all_run(bench: StorageBench) -> None:
    """Statements of many agents at once do not disturb each other."""
    refs = [AgentRef("Room", str(number)) for number in range(80)]
    await asyncio.gather(*(bench.sql(ref, _TABLE, ()) for ref in refs))
    put = "INSERT INTO notes (id, text) VALUES (?, ?)"
    await asyncio.gather(
        *(bench.sql(ref, put, [number, ref.name]) for number in (1, 2) for ref in refs)
    )
    expect([[ref.name] * 2 for ref in refs], [await _texts(bench, ref) for ref in refs])


async def statements_of_one_agent_take_turns(bench: StorageBench) -> None:
    """Writing statements at once see what those before them wrote, in every process."""
    await bench.sql(ROOM, _TABLE, ())
    second = await bench.open_again()
    number = await bench.agent_id(ROOM)
    storages = (bench.storage, second)

    async def add(position: int) -> int:
        effect = EffectRow(number, "i", position, "sql", f"print-{position}", None, 5)
        storage = storages[position % 2]
        [row] = (await storage.sql_once(ROOM, _ADD, [str(position)], effect=effect))[1]
        return int(row["id"])

    try:
        ids = await asyncio.gather(*(add(position) for position in range(30)))
    finally:
        await second.close()
    expect(list(range(1, 31)), sorted(ids))
    expect({str(position) for position in range(30)}, set(await _texts(bench)))


async def private_tables_survive_reopening(bench: StorageBench) -> None:
    """Tables and notes are there after a restart."""
    await bench.sql(ROOM, _TABLE, ())
    await _once(bench, 0, _ADD, "a")
    await bench.reopen()
    expect(["a"], await _texts(bench))
    await _once(bench, 0, _ADD, "a")
    expect(["a"], await _texts(bench))


async def closing_waits_for_statements(bench: StorageBench) -> None:
    """`close` lets running statements end and refuses later ones with a typed error."""
    await bench.sql(ROOM, _TABLE, ())
    adding = asyncio.create_task(bench.sql(ROOM, _ADD, ["a"]))
    await asyncio.sleep(0)
    await bench.storage.close()
    outcome = (await asyncio.gather(adding, return_exceptions=True))[0]
    await expect_error(StorageError, bench.sql(ROOM, _ADD, ["late"]))
    await bench.reopen()
    is_refused = isinstance(outcome, StorageError)
    expect([] if is_refused else ["a"], await _texts(bench))


SQL_CHECKS: Sequence[StorageCheck] = (
    rows_are_objects,
    values_are_bound,
    agents_have_their_own_tables,
    a_failing_statement_changes_nothing,
    a_noted_statement_runs_once,
    noted_rows_keep_their_types,
    a_failing_noted_statement_leaves_no_note,
    notes_are_read_by_invocation,
    notes_of_an_ended_invocation_go,
    concurrent_statements_all_run,
    statements_of_one_agent_take_turns,
    private_tables_survive_reopening,
    closing_waits_for_statements,
)
