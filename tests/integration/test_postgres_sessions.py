"""Conversations on PostgreSQL are those on SQLite: the same operations, the same answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.identity import AgentRef
from agent_runtime.storage.postgres import PostgresStorage
from agent_runtime.storage.protocol import Storage, Transaction
from agent_runtime.storage.session_protocol import (
    Namespace,
    NewMessage,
    OverlayRow,
    PromptRow,
    RecordRow,
    SessionReads,
    SessionRef,
)
from agent_runtime.storage.sqlite import SqliteStorage
from tests.support.postgres_databases import PostgresDatabases

AGENT = AgentRef("Room", "a")
SESSIONS = [SessionRef(AGENT, ""), SessionRef(AGENT, "s\x1a0"), SessionRef(AGENT, "ключ")]
WORDS = ["running", "tests", "café", "東京タワー", "x1", "deployment", "Friday", "\0", "and"]
STEPS = 60
TIMES = {"created_at", "updated_at"}

Operation = Callable[[Transaction], Awaitable[Any]]


@pytest.fixture
async def both(postgres: PostgresDatabases, tmp_path: Path) -> AsyncIterator[list[Storage]]:
    """An empty storage of each kind."""
    storages: list[Storage] = [
        await SqliteStorage.open(tmp_path),
        await PostgresStorage.open(await postgres.migrated()),
    ]
    yield storages
    for storage in storages:
        await storage.close()


class Program:
    """Chooses operations, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._ids = [f"m{number}" for number in range(20)] + ["odd\x1a0id", "-"]

    def session(self) -> SessionRef:
        """Choose a session."""
        return self._chance.choice(SESSIONS)

    def id(self) -> str:
        """Choose a message, which may not exist."""
        return self._chance.choice(self._ids)

    def text(self) -> str:
        """Make up what somebody says."""
        return " ".join(self._chance.choices(WORDS, k=self._chance.randint(0, 5)))

    def message(self) -> NewMessage:
        """Make up a message."""
        text = self.text()
        content = f'{{"text": "{len(text)}", "n": {self._chance.randint(0, 10**6)}}}'
        return NewMessage(self.id(), "user", content, self._chance.randint(1, 99), text)

    def operation(self) -> Operation:
        """Choose what to do next."""
        ref, chance = self.session(), self._chance
        messages = [self.message() for _ in range(chance.randint(1, 4))]
        parent, ids = self.id(), [self.id() for _ in range(3)]
        text, version = self.text(), chance.choice([None, 0, 1])
        overlay = OverlayRow(f"o{chance.randint(0, 9)}\0", text, ids[0], ids[1], 5)
        record = RecordRow(ref.session_id, text, None, None, "t", 1, 2, 0.5, None, 3, 3)
        label = chance.choice(["memory", "notes"])
        choices: list[tuple[int, Operation]] = [
            (8, lambda tx: tx.sessions.messages.append(ref, messages, None, is_auto_parent=True)),
            (6, lambda tx: tx.sessions.messages.append(
                ref, messages, parent, is_auto_parent=False)),
            (2, lambda tx: tx.sessions.messages.update(ref, messages[0])),
            (2, lambda tx: _unordered(tx.sessions.messages.delete(ref, ids))),
            (3, lambda tx: tx.sessions.messages.add_overlay(ref, overlay, 7)),
            (2, lambda tx: tx.sessions.context.put_context(
                ref, label, text, expected_version=version)),
            (1, lambda tx: tx.sessions.context.put_prompt(ref, PromptRow(text, None))),
            (2, lambda tx: tx.sessions.context.put_entry(Namespace(AGENT, "n", "l"), label, text)),
            (1, lambda tx: tx.sessions.registry.create_record(AGENT, record)),
            (1, lambda tx: tx.sessions.registry.update_record(
                AGENT, ref.session_id, name=text, input_tokens=3, cost=0.25)),
        ]  # fmt: skip
        if chance.random() < 0.03:
            return lambda tx: tx.sessions.messages.clear(ref)
        if chance.random() < 0.03:
            return lambda tx: tx.sessions.registry.delete_session(ref)
        weights = [weight for weight, _ in choices]
        return chance.choices([each for _, each in choices], weights)[0]

    def look(self) -> list[Callable[[SessionReads], Awaitable[Any]]]:
        """Choose what to read; everything there is to read of one session."""
        ref, leaf, words = self.session(), self._chance.choice([None, self.id()]), self.text()
        ids = [each.session_id for each in SESSIONS]
        namespace = Namespace(AGENT, "n", "l")
        return [
            lambda reads: reads.history(ref, leaf),
            lambda reads: reads.recent(ref, leaf, 60, 1),
            lambda reads: reads.sizes(ref, leaf),
            lambda reads: reads.visible_tokens(ref, leaf),
            lambda reads: reads.message(ref, self._ids[3]),
            lambda reads: reads.latest(ref),
            lambda reads: reads.length(ref, leaf),
            lambda reads: reads.children(ref, self._ids[2]),
            lambda reads: reads.overlays(ref),
            lambda reads: reads.tree(ref, 0, 100),
            lambda reads: _unordered(reads.search(AGENT, ids, words, 1000)),
            lambda reads: _unordered(reads.search_entries(namespace, words, 1000)),
            lambda reads: reads.count_entries(namespace),
            lambda reads: reads.context(ref, "memory"),
            lambda reads: reads.context_labels(ref),
            lambda reads: reads.prompt(ref),
            lambda reads: reads.record(ref),
            lambda reads: reads.records(AGENT, limit=10),
            lambda reads: reads.session_ids(AGENT),
        ]


async def _unordered(rows: Awaitable[list[Any]]) -> list[Any]:
    # The two rank in their own ways, and what is removed together has no order.
    return sorted(await rows, key=repr)


def _timeless(value: Any) -> Any:
    """Return a result without the times at which it was written."""
    if isinstance(value, list):
        return [_timeless(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        kept = {name: _timeless(item) for name, item in asdict(value).items() if name not in TIMES}
        return (type(value).__name__, kept)
    return value


async def _outcome(work: Awaitable[Any]) -> Any:
    try:
        return _timeless(await work)
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("seed", range(3))
async def test_both_engines_give_the_same_answers(both: list[Storage], seed: int) -> None:
    """After each of many operations all reads agree, odd characters included."""
    program = Program(seed)
    for step in range(STEPS):
        operation = program.operation()
        done = [await _outcome(storage.write(operation)) for storage in both]
        assert done[0] == done[1], f"step {step}"
        for number, look in enumerate(program.look()):
            seen = [await _outcome(look(storage.sessions)) for storage in both]
            assert seen[0] == seen[1], f"step {step}, look {number}"


async def test_appends_of_several_processes_make_one_path(postgres: PostgresDatabases) -> None:
    """Nobody's message is lost from the active path, and none forks it (contract F03)."""
    url = await postgres.migrated()
    storages = [await PostgresStorage.open(url) for _ in range(3)]
    ref = SESSIONS[0]

    async def append(storage: Storage, writer: int) -> None:
        for number in range(20):
            message = NewMessage(f"{writer}-{number}", "user", f'"{number}"', 1, "word")
            await storage.write(
                lambda tx, message=message: tx.sessions.messages.append(  # type: ignore[misc]
                    ref, [message], None, is_auto_parent=True
                )
            )

    try:
        await asyncio.gather(*(append(storage, n) for n, storage in enumerate(storages)))
        rows = await storages[0].sessions.tree(ref, 0, 1000)
        assert len(rows) == 60
        assert [row.depth for row in rows] == list(range(60))
        assert len(await storages[1].sessions.history(ref, None)) == 60
    finally:
        for storage in storages:
            await storage.close()


async def test_indexing_never_fails_a_write(postgres: PostgresDatabases) -> None:
    """A text with more different words than a `tsvector` holds is stored, and found."""
    storage = await PostgresStorage.open(await postgres.migrated())
    text = " ".join(f"{number:x}" for number in range(300_000))
    message = NewMessage("m", "user", '"long"', 1, text)
    try:
        ref = SESSIONS[0]
        await storage.write(
            lambda tx: tx.sessions.messages.append(ref, [message], None, is_auto_parent=True)
        )
        assert await storage.write(
            lambda tx: tx.sessions.messages.update(ref, replace(message, text=f"first {text}"))
        )
        [hit] = await storage.sessions.search(AGENT, [""], "first ff", 10)
        assert hit.id == "m"
    finally:
        await storage.close()
