"""The agents' own SQL on PostgreSQL: a schema per agent, made at its first statement.

Unqualified names are looked up in the agent's schema only. With a role of their own (the setting
`database_sql_role`) the statements have no rights on the runtime's tables either. What keeps agents
apart is their names, not rights: a statement that names another agent's schema reaches it.
"""

from __future__ import annotations

import asyncio
import datetime
import decimal
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import asyncpg

from agent_runtime.errors import AgentDestroyedError, SqlError, StorageUnavailableError
from agent_runtime.identity import file_stem
from agent_runtime.json_value import Json
from agent_runtime.storage import statements
from agent_runtime.storage.own_database import OwnDatabase
from agent_runtime.storage.postgres_errors import storage_errors
from agent_runtime.storage.postgres_schema import SCHEMA
from agent_runtime.storage.postgres_spelling import number_marks, spell
from agent_runtime.storage.postgres_states import is_of_the_server
from agent_runtime.storage.private_rows import pack_rows, unpack_rows
from agent_runtime.storage.protocol import EffectRow
from agent_runtime.storage.sql_transaction import effect_row

T = TypeVar("T")

logger = logging.getLogger("agent_runtime")

_MAX_KNOWN = 10_000
_HAS_SCHEMA = "SELECT to_regnamespace(quote_ident($1)) IS NOT NULL"
# The server quotes the names: only it knows how.
_MAKE_SCHEMA = """SELECT format('CREATE SCHEMA IF NOT EXISTS %I', $1::text)
    || CASE WHEN $3::text IS NULL THEN '' ELSE format(' AUTHORIZATION %I', $3::text) END
    || format('; COMMENT ON SCHEMA %I IS %L', $1::text, $2::text)"""
_LIVES = "SELECT EXISTS (SELECT 1 FROM agents WHERE id = $1)"
_DROP_SCHEMA = "SELECT format('DROP SCHEMA IF EXISTS %I CASCADE', $1::text)"
_ENTER_SCHEMA = """SELECT format('SET LOCAL search_path = %I', $1::text)
    || CASE WHEN $2::text IS NULL THEN '' ELSE format('; SET LOCAL ROLE %I', $2::text) END"""
# A statement's view of the tables must not be older than its turn.
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_BEGIN_READING = f"{_BEGIN} READ ONLY"
_LEAVE_SCHEMA = f"SET LOCAL ROLE NONE; SET LOCAL search_path = {SCHEMA}"

# The type of a value could not be told from the statement: it is told from the value then.
_UNTYPED = frozenset({"42P18", "42725", "42804", "42883"})
_TEXTUAL = frozenset({"text", "varchar", "bpchar", "name", "json", "jsonb", "char", "xml"})
_WHOLE = frozenset({"int2", "int4", "int8", "oid"})
_NUMERIC = _WHOLE | {"float4", "float8", "numeric"}


def schema_name(place: OwnDatabase) -> str:
    """Return the name of the agent's schema: no two agents share one, and it is short enough."""
    slug = file_stem(place.ref).rpartition("-")[0]
    return f"agent_{slug[:30].replace('-', '_').strip('_')}_{place.agent_id}"


# "agsq" as a number: the change feed and migrations have other first keys.
_TURNS = 0x6167_7371
# The second key is an integer too; agents that share one only wait for each other.
_AGENTS = 0x7FFF_FFFF


class _UntypedError(Exception):
    """The statement does not tell the types of its values."""


class _NoSchemaError(Exception):
    """The agent's schema is not there, or the statement names one that is not."""


class _NotedError(Exception):
    """Another attempt of the same effect was first."""


class _WritingError(Exception):
    """The statement was only to read, and would have written."""


class PrivateSchemas:
    """Runs the agents' statements, each in a transaction of its own.

    Those of one agent that write take turns, whichever processes they come from, as they do on a
    SQLite file: `SELECT MAX(id) + 1` in one sees what the one before has inserted. They wait
    without a connection for others of their process. Reading waits for nobody.

    Args:
        role: Whose rights the statements have; None for the runtime's own.
    """

    def __init__(self, pool: asyncpg.Pool, place: str, role: str | None) -> None:
        self._pool = pool
        self._place = place
        self._role = role
        self._entering: OrderedDict[OwnDatabase, str] = OrderedDict()
        # A lock lives as long as somebody has it or waits for it.
        self._turns: WeakValueDictionary[OwnDatabase, asyncio.Lock] = WeakValueDictionary()
        self._running: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    async def run(
        self, place: OwnDatabase, query: str, params: Sequence[Json]
    ) -> list[dict[str, Json]]:
        """Run one statement in a transaction of its own, beside whatever else runs."""
        return (await self._shielded(self._patiently(place, query, params, None)))[1]

    async def read(
        self, place: OwnDatabase, query: str, params: Sequence[Json]
    ) -> list[dict[str, Json]] | None:
        """Run one statement that can write nothing; None if it tried to."""
        reading = self._patiently(place, query, params, None, begin=_BEGIN_READING)
        try:
            return (await self._shielded(reading))[1]
        except _WritingError:
            return None

    async def run_once(
        self, place: OwnDatabase, query: str, params: Sequence[Json], effect: EffectRow
    ) -> tuple[EffectRow, list[dict[str, Json]]]:
        """Run one statement in its turn and note it, unless its position is noted already."""
        noted, rows = await self._shielded(self._in_turn(place, query, params, effect))
        return noted or effect, rows

    async def place(self, place: OwnDatabase) -> str | None:
        """Return the name of the agent's schema, None if there is none."""
        name = schema_name(place)
        with storage_errors(self._place):
            return name if await self._pool.fetchval(_HAS_SCHEMA, name) else None

    async def delete(self, place: OwnDatabase) -> None:
        """Drop the agent's schema, if there is one, with all that is in it."""
        self._entering.pop(place, None)
        with storage_errors(self._place):
            dropping = await self._pool.fetchval(_DROP_SCHEMA, schema_name(place))
            await self._pool.execute(dropping)

    async def close(self) -> None:
        """Refuse new statements and wait for those that run."""
        self._is_closed = True
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._pool.close()

    async def _in_turn(
        self, place: OwnDatabase, query: str, params: Sequence[Json], effect: EffectRow
    ) -> tuple[EffectRow | None, list[dict[str, Json]]]:
        lock = self._turns.setdefault(place, asyncio.Lock())
        async with lock:
            return await self._patiently(place, query, params, effect)

    async def _patiently(
        self,
        place: OwnDatabase,
        query: str,
        params: Sequence[Json],
        effect: EffectRow | None,
        *,
        begin: str = _BEGIN,
    ) -> tuple[EffectRow | None, list[dict[str, Json]]]:
        is_typed = is_made = False
        while True:
            try:
                with storage_errors(self._place):
                    async with self._pool.acquire() as connection:
                        return await self._transact(
                            connection, place, query, params, effect, begin=begin, is_typed=is_typed
                        )
            except _NotedError:
                continue
            except _UntypedError as error:
                if is_typed:
                    raise _sql_error(error.__cause__, query) from error.__cause__
                is_typed = True
            except _NoSchemaError as error:
                # Somebody else may have dropped it: it is made once more, and once only.
                self._entering.pop(place, None)
                if is_made:
                    raise _sql_error(error.__cause__, query) from error.__cause__
                is_made = True

    async def _transact(
        self,
        connection: asyncpg.Connection,
        place: OwnDatabase,
        query: str,
        params: Sequence[Json],
        effect: EffectRow | None,
        *,
        begin: str,
        is_typed: bool,
    ) -> tuple[EffectRow | None, list[dict[str, Json]]]:
        entering = await self._enter(connection, place)
        if effect is None:
            async with _transaction(connection, entering, begin):
                try:
                    return None, await _execute(connection, query, params, is_typed=is_typed)
                except asyncpg.ReadOnlySQLTransactionError as error:
                    if begin == _BEGIN_READING:
                        raise _WritingError from error
                    raise
        async with _transaction(connection, _take_turn(effect.agent_id)):
            key = (effect.agent_id, effect.invocation, effect.position)
            for row in await connection.fetch(spell(statements.READ_EFFECT).text, *key):
                stored = effect_row(row)
                return stored, unpack_rows(stored.result)
            await connection.execute(entering)
            rows = await _execute(connection, query, params, is_typed=is_typed)
            await connection.execute(_LEAVE_SCHEMA)
            await _note(connection, effect, pack_rows(rows))
            return None, rows

    async def _enter(self, connection: asyncpg.Connection, place: OwnDatabase) -> str:
        """Return what makes the agent's schema the current one, having made it if it is new."""
        known = self._entering.get(place)
        if known is not None:
            self._entering.move_to_end(place)
            return known
        name = schema_name(place)
        if not await connection.fetchval(_HAS_SCHEMA, name):
            # It is dropped after its agent; who comes late must not make it again.
            if not await connection.fetchval(_LIVES, place.agent_id):
                raise AgentDestroyedError(f"{place.ref} was destroyed; nothing was done")
            making = await connection.fetchval(_MAKE_SCHEMA, name, str(place.ref), self._role)
            try:
                await connection.execute(making)
            except (asyncpg.UniqueViolationError, asyncpg.DuplicateSchemaError):
                logger.debug("%s: another process has just made %s", place.ref, name)
        entering = str(await connection.fetchval(_ENTER_SCHEMA, name, self._role))
        self._entering[place] = entering
        while len(self._entering) > _MAX_KNOWN:
            self._entering.popitem(last=False)
        return entering

    async def _shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Let a statement finish although its caller is cancelled."""
        if self._is_closed:
            work.close()
            raise StorageUnavailableError("the storage is closed")
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)


def _take_turn(agent_id: int) -> str:
    return f"SELECT pg_advisory_xact_lock({_TURNS}, {agent_id & _AGENTS})"


@asynccontextmanager
async def _transaction(
    connection: asyncpg.Connection, opening: str, begin: str = _BEGIN
) -> AsyncIterator[None]:
    """Run the block in a transaction that a first statement opens in the same round trip."""
    try:
        await connection.execute(f"{begin}; {opening}")
        yield
    except BaseException:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
        raise
    await connection.execute("COMMIT")


async def _note(connection: asyncpg.Connection, effect: EffectRow, result: str) -> None:
    done = await connection.execute(
        spell(statements.ADD_EFFECT).text,
        effect.agent_id,
        effect.invocation,
        effect.position,
        effect.kind,
        effect.fingerprint,
        effect.created_at,
        result,
    )
    if done == "INSERT 0 0":
        raise _NotedError


async def _execute(
    connection: asyncpg.Connection, query: str, params: Sequence[Json], *, is_typed: bool
) -> list[dict[str, Json]]:
    try:
        text, count = number_marks(query)
        if count != len(params) and count > 0:
            raise SqlError(
                f"SQL query failed: it has {count} placeholders and {len(params)} values",
                query=query,
            )
        casts = [_cast_of_value(value) for value in params] if is_typed else [""] * len(params)
        if is_typed:
            text, _ = number_marks(query, lambda number: f"${number}{casts[number - 1]}")
        statement = await connection.prepare(text)
        types = [kind.name for kind in statement.get_parameters()]
        wanted = [
            cast or _cast(value, kind)
            for cast, value, kind in zip(casts, params, types, strict=False)
        ]
        if wanted != casts:
            text, _ = number_marks(query, lambda number: f"${number}{wanted[number - 1]}")
            statement = await connection.prepare(text)
            types = [kind.name for kind in statement.get_parameters()]
        values = [
            bool(value) if kind == "bool" and value in (0, 1) else value
            for value, kind in zip(params, types, strict=False)
        ]
        rows = await statement.fetch(*values, *params[len(values) :])
    except asyncpg.InvalidSchemaNameError as error:
        raise _NoSchemaError from error
    except asyncpg.ReadOnlySQLTransactionError:
        raise
    except asyncpg.PostgresError as error:
        if is_of_the_server(error.sqlstate or ""):
            raise
        if error.sqlstate in _UNTYPED and params and not is_typed:
            raise _UntypedError from error
        raise _sql_error(error, query) from error
    except (asyncpg.InterfaceError, ValueError, OverflowError) as error:
        if connection.is_closed():
            raise
        raise _sql_error(error, query) from error
    return [{name: _to_json(value) for name, value in row.items()} for row in rows]


def _sql_error(error: BaseException | None, query: str) -> SqlError:
    return SqlError(f"SQL query failed: {error}", query=query)


def _cast(value: Json, kind: str) -> str:
    """Return what turns a value into what the statement takes at its place, "" for nothing."""
    if isinstance(value, str):
        return "" if kind in _TEXTUAL else f"::text::{_quoted(kind)}"
    if kind == "bool" and isinstance(value, int):
        return ""
    if kind in _NUMERIC and isinstance(value, int | float):
        return ""
    if kind == "bytea" and isinstance(value, bytes):
        return ""
    return _cast_of_value(value)


def _cast_of_value(value: Json) -> str:
    if isinstance(value, bool):
        return "::boolean"
    if isinstance(value, int):
        return "::bigint"
    if isinstance(value, float):
        return "::double precision"
    if isinstance(value, bytes):
        return "::bytea"
    return "::text" if isinstance(value, str) else ""


def _quoted(kind: str) -> str:
    """Quote the name of a type as the server gave it; an array's ends in brackets."""
    name = kind.removesuffix("[]")
    return '"' + name.replace('"', '""') + '"' + kind[len(name) :]


def _to_json(value: Any) -> Json:
    """Return a column's value as what JSON has for it, bytes as they are."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    return str(value)
