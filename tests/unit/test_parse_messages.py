"""Reading stored messages: what is no message is left out, and the process is as it was before."""

from __future__ import annotations

import gc

import pytest

from agent_runtime.session.message import parse_messages

MESSAGE = '{"id":"m","role":"user","parts":[]}'


@pytest.mark.parametrize("broken", ["{", "null", "[]", '{"id":1,"role":"user","parts":[]}'])
def test_what_is_no_message_is_left_out(broken: str) -> None:
    """One broken row costs that row alone."""
    found = parse_messages([MESSAGE, broken, MESSAGE])
    assert found == [{"id": "m", "role": "user", "parts": []}] * 2


@pytest.mark.parametrize("is_collecting", [True, False])
@pytest.mark.parametrize("content", [MESSAGE, "{"])
def test_the_collector_stays_as_it_was(content: str, is_collecting: bool) -> None:
    """Whether the program collects cycles is its own choice, also after a broken message."""
    if not is_collecting:
        gc.disable()
    try:
        parse_messages([content])
        assert gc.isenabled() is is_collecting
    finally:
        gc.enable()
