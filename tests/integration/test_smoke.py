"""The thinnest path end to end."""

from __future__ import annotations

from agent_runtime import Agent
from tests.conftest import Serve


class Notes(Agent):
    """Any JSON is its state."""


async def test_a_state_that_was_set_is_read_back(serve: Serve) -> None:
    """What set_state acknowledged, get_state returns."""
    async with serve(Notes) as served:
        notes = served.client.agent("Notes", "n")

        receipt = await notes.set_state({"text": "hello"})

        assert receipt.version == 1
        assert (await notes.get_state()).value == {"text": "hello"}
