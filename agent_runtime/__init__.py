"""Durable AI agents: typed state that survives anything, hosted on Temporal.

Names are loaded on first use, so that workflows may import `AgentStep` inside Temporal's sandbox
without anything that does input or output.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

_HOME = {
    "Agent": "agent",
    "AgentCall": "agent_call",
    "AgentClient": "client",
    "AgentHandle": "handle",
    "AgentRef": "identity",
    "AgentRuntime": "runtime",
    "AgentRuntimeError": "errors",
    "AgentStep": "steps",
    "GatewayClient": "gateway_client",
    "Json": "json_value",
    "Receipt": "mutation",
    "Retention": "storage.protocol",
    "StateHistoryEntry": "state_reader",
    "StateSnapshot": "state_reader",
    "UNSET": "state",
    "callable": "handler",
}

__all__ = [
    "UNSET",
    "Agent",
    "AgentCall",
    "AgentClient",
    "AgentHandle",
    "AgentRef",
    "AgentRuntime",
    "AgentRuntimeError",
    "AgentStep",
    "GatewayClient",
    "Json",
    "Receipt",
    "Retention",
    "StateHistoryEntry",
    "StateSnapshot",
    "callable",
]

if TYPE_CHECKING:
    from agent_runtime.agent import Agent as Agent
    from agent_runtime.agent_call import AgentCall as AgentCall
    from agent_runtime.client import AgentClient as AgentClient
    from agent_runtime.errors import AgentRuntimeError as AgentRuntimeError
    from agent_runtime.gateway_client import GatewayClient as GatewayClient
    from agent_runtime.handle import AgentHandle as AgentHandle
    from agent_runtime.handler import callable as callable
    from agent_runtime.identity import AgentRef as AgentRef
    from agent_runtime.json_value import Json as Json
    from agent_runtime.mutation import Receipt as Receipt
    from agent_runtime.runtime import AgentRuntime as AgentRuntime
    from agent_runtime.state import UNSET as UNSET
    from agent_runtime.state_reader import StateHistoryEntry as StateHistoryEntry
    from agent_runtime.state_reader import StateSnapshot as StateSnapshot
    from agent_runtime.steps import AgentStep as AgentStep
    from agent_runtime.storage.protocol import Retention as Retention


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'agent_runtime' has no attribute {name!r}")
    return getattr(importlib.import_module(f"agent_runtime.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
