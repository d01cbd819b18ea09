"""Whose a database of an agent's own is."""

from __future__ import annotations

from typing import NamedTuple

from agent_runtime.identity import AgentRef


class OwnDatabase(NamedTuple):
    """An agent and its number: one that is destroyed and made again gets another."""

    ref: AgentRef
    agent_id: int
