"""The agents that the recordings were made with, same in name and behaviour, and a few more."""

from __future__ import annotations

from typing import Any

from agent_runtime import Agent
from tests.e2e.agents.calling import RpcAgent
from tests.e2e.agents.cases import StateAgent, TagAgent
from tests.e2e.agents.connecting import (
    EchoAgent,
    LoudAgent,
    NoIdentityAgent,
    ProtocolAgent,
    ReadonlyAgent,
    SetsStateOnConnectAgent,
    SlowConnectAgent,
    ThrowsOnConnectAgent,
)
from tests.e2e.agents.stateful import (
    CounterAgent,
    GameAgent,
    HookAgent,
    LoopAgent,
    NoStateAgent,
    ValidatedAgent,
    ValidatorReadsStateAgent,
)

AGENTS: list[type[Agent[Any]]] = [
    CounterAgent,
    EchoAgent,
    GameAgent,
    HookAgent,
    LoopAgent,
    LoudAgent,
    NoIdentityAgent,
    NoStateAgent,
    ProtocolAgent,
    ReadonlyAgent,
    RpcAgent,
    SetsStateOnConnectAgent,
    SlowConnectAgent,
    StateAgent,
    TagAgent,
    ThrowsOnConnectAgent,
    ValidatedAgent,
    ValidatorReadsStateAgent,
]
