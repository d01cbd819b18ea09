"""A session's own row, and what several parts of the session storage do with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json, to_json
from agent_runtime.storage import message_statements as sql
from agent_runtime.storage.session_dialect import SessionDialect
from agent_runtime.storage.session_protocol import SessionRef
from agent_runtime.storage.visible_path import Path, path_of_lineage

Params = Sequence[Json] | Mapping[str, Json]
Run = Callable[[str, Params], Awaitable[list[tuple[Json, ...]]]]
RunMany = Callable[[str, Iterable[Sequence[Json]]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Head:
    """A session's latest leaf with its labels."""

    seq: int
    message_id: str
    branch: int
    depth: int
    path_bytes: int
    path_tokens: int


@dataclass(slots=True)
class Node:
    """A message with its labels, its parent, and whether one continues its branch."""

    id: str
    seq: int
    branch: int
    depth: int
    path_bytes: int
    path_tokens: int
    parent_id: str | None
    is_continued: bool


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that this transaction may write to, with the messages of it that were asked for."""

    number: int
    agent_id: int
    next_seq: int
    next_branch: int
    tree_version: int
    head: Head | None
    found: list[Node]


class SessionRows:
    """Finds, makes and empties sessions within a unit of work.

    Args:
        make_agent: Returns an agent's number, making the agent if it is new.
    """

    def __init__(
        self,
        run: Run,
        run_many: RunMany,
        dialect: SessionDialect,
        make_agent: Callable[[AgentRef], Awaitable[int]],
    ) -> None:
        self.run = run
        self.run_many = run_many
        self.dialect = dialect
        self.make_agent = make_agent

    async def find(self, ref: SessionRef, message_ids: Iterable[str] = ()) -> OpenSession | None:
        """Return a session, kept from other writers, or None if it was never written to.

        Args:
            message_ids: Find these messages too.
        """
        at = (*ref.agent, ref.session_id)
        if self.dialect.lock_session is not None:
            await self.run(self.dialect.lock_session, at)
        wanted = to_json([[each] for each in message_ids], what="the messages' ids").decode()
        rows = await self.run(sql.OPEN_SESSION, (wanted, *at))
        if not rows:
            return None
        number, agent_id, next_seq, next_branch, tree_version, *labels = rows[0]
        return OpenSession(
            number,
            agent_id,
            next_seq,
            next_branch,
            tree_version,
            None if labels[0] is None else Head(*labels[:6]),
            [Node(*row[11:]) for row in rows if row[11] is not None],
        )

    async def open(self, ref: SessionRef, message_ids: Iterable[str] = ()) -> OpenSession:
        """Return a session, made if it is new, kept from other writers; see `find`."""
        session = await self.find(ref, message_ids)
        if session is None:
            agent_id = await self.make_agent(ref.agent)
            await self.run(sql.ADD_SESSION, (agent_id, ref.session_id))
            session = await self.find(ref)
        assert session is not None
        return session

    async def clear(self, number: int) -> None:
        """Remove all messages and overlays of a session."""
        for statement in (
            self.dialect.clear_message_terms,
            sql.CLEAR_OVERLAYS,
            sql.CLEAR_BRANCHES,
            sql.CLEAR_MESSAGES,
        ):
            await self.run(statement, (number,))
        await self.run(sql.RELABEL_SESSION, (number,))

    async def path_to(self, ref: SessionRef, message_id: str) -> Path | None:
        """Return the path to a message, None if there is none of that id."""
        path = await read_path(self.run, ref, message_id)
        return path if path is not None and path.ranges else None


async def read_path(run: Run, ref: SessionRef, leaf_id: str | None) -> Path | None:
    """Return the path to a message; without ranges if it is unknown, None without a session."""
    at = (*ref.agent, ref.session_id)
    if leaf_id is None:
        rows = await run(sql.READ_LATEST_PATH, at)
    else:
        rows = await run(sql.READ_PATH, (*at, leaf_id))
    if not rows:
        return None
    session, tree_version, has_overlays, path_bytes, path_tokens, *_ = rows[0]
    sizes = None if path_bytes is None else (path_bytes, path_tokens)
    lineage = [(row[5], row[6]) for row in rows if row[5] is not None]
    return path_of_lineage(session, tree_version, bool(has_overlays), sizes, lineage)
