"""The agents that the recordings were made with, same in name and behaviour, and a few more."""

from __future__ import annotations

from typing import Any

from agent_runtime import Agent
from tests.e2e.agents.calling import RpcAgent
from tests.e2e.agents.cases import GreetAgent, HiddenAgent, StateAgent, TagAgent
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
from tests.e2e.agents.lasting import SqlAgent, TaskAgent
from tests.e2e.agents.stateful import (
    CounterAgent,
    GameAgent,
    HookAgent,
    LoopAgent,
    NoStateAgent,
    ValidatedAgent,
    ValidatorReadsStateAgent,
)
from tests.e2e.agents.talking import ChatSessionAgent, SummaryAgent

AGENTS: list[type[Agent[Any]]] = [
    ChatSessionAgent,
    CounterAgent,
    EchoAgent,
    GameAgent,
    GreetAgent,
    HiddenAgent,
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
    SqlAgent,
    StateAgent,
    SummaryAgent,
    TagAgent,
    TaskAgent,
    ThrowsOnConnectAgent,
    ValidatedAgent,
    ValidatorReadsStateAgent,
]
