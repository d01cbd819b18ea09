"""What users found in other products about odd texts and searches, on both engines."""

from __future__ import annotations

import pytest

from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.message import message_text
from agent_runtime.session.session_manager import SessionManager
from tests.support.session import ids, user

WORDS = {
    "endpoint": "the chat-send endpoint returned 502",
    "agents": "don't use agents here",
    "build": "C++ build at 3 GB/s, v2.1",
}
CHINESE = "步2 重跑gen-itgc后50条悬空引用清零\uff0c修复已验证"


async def filled(store: DirectSessionStore, texts: dict[str, str]) -> SessionManager:
    """Return a manager whose session `chat` holds messages, and another session others."""
    manager = SessionManager.create(store)
    for name in ("chat", "other"):
        await manager.create(name)
    records = {record.name: record.id for record in await manager.list()}
    for message_id, text in texts.items():
        await manager.append(records["chat"], user(message_id, text))
    await manager.append(records["other"], user("elsewhere", "nothing of interest"))
    return manager


async def found(manager: SessionManager, query: str) -> list[str]:
    """Return what a query finds in the session, which is what it finds in all sessions."""
    [chat] = [record.id for record in await manager.list() if record.name == "chat"]
    in_session = [hit.id for hit in await manager.get_session(chat).search(query)]
    everywhere = [hit.id for hit in await manager.search(query)]
    assert in_session == everywhere
    return in_session


async def test_c10_the_character_nul_in_texts(session_store: DirectSessionStore) -> None:
    """It comes back, is not its own spelling, and does not keep words from being found."""
    texts = {"nul": "W\0s\0l ready", "spelled": "\\u0000x"}
    manager = await filled(session_store, texts)

    [chat] = [record.id for record in await manager.list() if record.name == "chat"]
    history = await manager.get_history(chat)
    assert dict(zip(ids(history), map(message_text, history), strict=True)) == texts
    assert await found(manager, "ready") == ["nul"]
    assert await found(manager, "a\0b") == []


@pytest.mark.parametrize(
    ("query", "hits"),
    [
        ("chat-send", ["endpoint"]),
        ("don't use", ["agents"]),
        ("C++", ["build"]),
        ("GB/s", ["build"]),
        ("v2.1", ["build"]),
        ("NOT", []),
        ("AND OR", []),
        ('"', []),
        ("*", []),
        ("(", []),
        ("content:x", []),
        ("", []),
        ("   ", []),
    ],
)
async def test_c12_words_that_are_syntax_of_searches(
    session_store: DirectSessionStore, query: str, hits: list[str]
) -> None:
    """They are words like others, and none is an error."""
    assert await found(await filled(session_store, WORDS), query) == hits


async def test_c13_texts_without_spaces(session_store: DirectSessionStore) -> None:
    """Chinese is found by any part of it; English keeps its stems."""
    texts = {"zh": CHINESE, "en": "The deployment is on Friday"}
    manager = await filled(session_store, texts)

    for query in ("悬空", "itgc", "修复已验证"):
        assert await found(manager, query) == ["zh"]
    assert await found(manager, "不存在") == []
    assert await found(manager, "deployments") == ["en"]
