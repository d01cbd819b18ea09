"""A fork's messages are copied by the database; the outcome is that of appending them (19.5)."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_runtime.compaction.token_estimate import estimate_message_tokens
from agent_runtime.session.direct_session_store import DirectSessionStore, open_session_store
from agent_runtime.session.message import Message
from agent_runtime.session.session_fork import copied_message_id
from agent_runtime.session.session_manager import SessionManager
from agent_runtime.session.session_store import session_ref
from agent_runtime.session.stored_session import StoredSessionProvider
from agent_runtime.storage.message_tree import MessageTree
from agent_runtime.storage.path_copy import copy_part
from agent_runtime.storage.sqlite import SqliteStorage
from tests.support.json_values import json_objects, texts
from tests.support.postgres_databases import PostgresDatabases
from tests.support.session_stores import ENGINES, open_stores, u
from tests.support.session_tree_check import check_session_tree


@pytest.fixture(params=ENGINES)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresDatabases
) -> AsyncIterator[DirectSessionStore]:
    """A fresh session store of either engine."""
    async with open_stores(request.param, tmp_path / "sessions", postgres, "default") as [opened]:
        yield opened


async def _read_by_read(*_: Any) -> bool:
    """Stand for a copy that must read each message."""
    return False


def _without_ids(messages: list[Message]) -> list[Message]:
    return [{**each, "id": ""} for each in messages]


async def test_a_long_fork_is_copied_with_all_that_is_reckoned_of_it(
    store: DirectSessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids, sizes, index and later appends are those of messages appended one by one."""
    manager = SessionManager.create(store)
    messages = [u(f"m{number}", f"word{number} común 東京 and more") for number in range(1_100)]
    messages[700] = {"role": "user", "parts": messages[700]["parts"], "id": 'id "last"'}
    provider = StoredSessionProvider(store, "")
    await provider.append_messages(messages[:600])
    await provider.append_messages([u("side")], "m300")
    await provider.append_messages(messages[600:], "m599")
    await provider.add_compaction("what was said", "m100", "m199")
    copied = list[int]()

    async def counted(rows: Any, part: Any, *others: Any) -> bool:
        is_copied = await copy_part(rows, part, *others)
        copied.append(part.length if is_copied else 0)
        return is_copied

    monkeypatch.setattr("agent_runtime.storage.message_tree.copy_part", counted)
    quick = await manager.fork("", "m1099", "quick")
    monkeypatch.setattr(MessageTree, "copy_part", _read_by_read)
    slow = await manager.fork("", "m1099", "slow")

    assert 0 in copied and sum(copied) >= 500
    forks = [StoredSessionProvider(store, fork.id) for fork in (quick, slow)]
    histories = [await fork.get_history() for fork in forks]
    assert _without_ids(histories[0]) == _without_ids(histories[1])
    assert len(histories[0]) == 1_001
    assert [each["id"] for each in histories[0]] == [
        copied_message_id(quick.id, index) for index in range(1_001)
    ]
    tokens = sum(estimate_message_tokens(each) for each in histories[0])
    for fork in forks:
        assert await fork.get_path_length() == 1_001
        assert await fork.estimate_visible_tokens() == tokens
    stats = [
        [(row.role, row.bytes) for row in await fork.get_history_row_stats()] for fork in forks
    ]
    assert stats[0] == stats[1]
    for query, count in (("word900", 1), ("comun", 20), ("東京", 20), ("word150", 0), ("said", 20)):
        found = [await fork.search_messages(query, 20) for fork in forks]
        assert [hit.content for hit in found[0]] == [hit.content for hit in found[1]]
        assert len(found[0]) >= min(count, 1) and len(found[0]) <= count
    await forks[0].append_messages([u("after")])
    assert (await forks[0].get_history())[-1]["id"] == "after"
    assert await forks[0].get_path_length() == 1_002


_MESSAGES = st.tuples(
    st.integers(0, 3),
    texts.filter(lambda each: "\0" not in each and not each.startswith("compaction_")),
    st.booleans(),
    st.lists(texts, max_size=2),
    json_objects,
)


def _message(number: int, name: str, is_id_first: bool, said: list[str], more: Any) -> Message:
    identity = {"id": f"{name}{number}"}
    rest = {
        **{key: value for key, value in more.items() if key not in ("id", "role", "parts")},
        "role": "user",
        "parts": [{"type": "text", "text": text} for text in said],
    }
    return {**identity, **rest} if is_id_first else {**rest, **identity}


async def _compare(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with await open_session_store(directory) as store:
            provider, manager = StoredSessionProvider(store, ""), SessionManager.create(store)
            path: list[str] = []
            for number, (back, *fields) in enumerate(steps):
                message = _message(number, *fields)
                parent = path[-1 - back] if len(path) > back else None
                await provider.append_messages([message], parent)
                path = path[: len(path) - back] if parent is not None else []
                path.append(str(message["id"]))
                if len(path) > 3 and back == 3:
                    await provider.add_compaction("summary", path[-3], path[-2])
            fork = await manager.fork("", path[-1], "fork")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(MessageTree, "copy_part", _read_by_read)
                slow = await manager.fork("", path[-1], "slow")
            history = await manager.get_history(fork.id)
            assert _without_ids(history) == _without_ids(await manager.get_history(slow.id))
            assert [each["id"] for each in history] == [
                copied_message_id(fork.id, index) for index in range(len(history))
            ]
            storage = store._storage
            assert isinstance(storage, SqliteStorage)
            await check_session_tree(storage, session_ref(store, fork.id))


@settings(max_examples=40, deadline=None)
@given(st.lists(_MESSAGES, min_size=1, max_size=12))
def test_any_path_is_copied_as_if_it_were_appended(steps: list[Any]) -> None:
    """Whatever the messages hold, wherever they branch; labels, sums and index agree."""
    asyncio.run(_compare(steps))
