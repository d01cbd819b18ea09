"""An agent whose conversations are set up by the test that names it, and what it was told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import orjson

from agent_runtime import Agent, callable
from agent_runtime.session.session import Session

Setup = Callable[[Session], Session]

setups: dict[str, Setup] = {}
"""How the sessions of an agent are set up, by its name."""

frames: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
"""What an agent's clients were told, by its name."""


class Compacting(Agent):
    """Summarizes as its test wants."""

    def configure_session(self, session: Session) -> Session:
        """Set it up as the test has said."""
        return setups[self.name](session)

    async def broadcast_session_frame(self, text: str) -> None:
        """Keep the frame."""
        frames[self.name].append(orjson.loads(text))

    @callable()
    async def compact_here(self, session_id: str) -> str | None:
        """Compact from within a handler and return the summary."""
        result = await self.get_session(session_id).compact()
        return None if result is None else result.summary

    @callable()
    async def replace_block(self, label: str, text: str) -> None:
        """Write a block and the prompt with it."""
        await self.session.replace_context_block(label, text)
        await self.session.refresh_system_prompt()


def phases(name: str) -> list[str]:
    """Return the frames of an agent in a word each; one that tells of a summary has a plus sign."""
    return [
        "error"
        if frame["type"] == "cf_agent_session_error"
        else frame["phase"] + ("+" if "compacted" in frame else "")
        for frame in frames[name]
    ]
