"""What cannot name a session or a message is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_runtime.errors import InvalidMessageError, SessionSetupError
from agent_runtime.session import Session, open_session_store, text_message


@pytest.mark.parametrize("session_id", ["a\0b", "\ud800", "x" * 1_001], ids=["nul", "half", "long"])
async def test_an_id_that_cannot_be_stored_is_refused_at_the_first_use(
    tmp_path: Path, session_id: str
) -> None:
    """Nothing is read or written under it."""
    async with await open_session_store(tmp_path) as store:
        with pytest.raises(SessionSetupError, match="a session id is a text"):
            await Session.create(store).for_session(session_id).get_history()


@pytest.mark.parametrize("field", ["id", "role"])
async def test_a_message_s_id_and_role_hold_no_nul(tmp_path: Path, field: str) -> None:
    """The message is refused, and nothing of it is stored."""
    async with await open_session_store(tmp_path) as store:
        session = Session.create(store)
        with pytest.raises(InvalidMessageError, match=r"U\+0000"):
            await session.append_message(text_message("user", "x", id="m") | {field: "a\0b"})
        assert await session.get_history() == []
        assert await session.get_message("a\0b") is None
