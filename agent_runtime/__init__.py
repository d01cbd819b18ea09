"""Durable AI agents: typed state that survives anything, hosted on Temporal.

Names are loaded on first use, so that workflows may import `AgentStep` inside Temporal's sandbox
without anything that does input or output.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

_HOME = {
    "Agent": "agent",
    "AgentCall": "client.agent_call",
    "AgentClient": "client.agent_client",
    "AgentHandle": "client.handle",
    "AgentRef": "identity",
    "AgentRuntime": "runtime",
    "AgentRuntimeError": "errors",
    "AgentStep": "steps",
    "GatewayClient": "gateway_client.gateway_client",
    "Json": "json_value",
    "Receipt": "mutation",
    "Retention": "storage.protocol",
    "Session": "session.session",
    "SessionHandle": "client.session_handle",
    "SessionManager": "session.session_manager",
    "StateHistoryEntry": "hosting.state_reader",
    "StateSnapshot": "hosting.state_reader",
    "UNSET": "state",
    "callable": "handler",
    "create_compact_function": "compaction.compact_function",
    "open_session_store": "session.direct_session_store",
    "text_message": "session.message",
    "tool": "generation.tool_method",
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
    "Session",
    "SessionHandle",
    "SessionManager",
    "StateHistoryEntry",
    "StateSnapshot",
    "callable",
    "create_compact_function",
    "open_session_store",
    "text_message",
    "tool",
]

if TYPE_CHECKING:
    from agent_runtime.agent import Agent as Agent
    from agent_runtime.client.agent_call import AgentCall as AgentCall
    from agent_runtime.client.agent_client import AgentClient as AgentClient
    from agent_runtime.client.handle import AgentHandle as AgentHandle
    from agent_runtime.client.session_handle import SessionHandle as SessionHandle
    from agent_runtime.compaction.compact_function import (
        create_compact_function as create_compact_function,
    )
    from agent_runtime.errors import AgentRuntimeError as AgentRuntimeError
    from agent_runtime.gateway_client.gateway_client import GatewayClient as GatewayClient
    from agent_runtime.generation.tool_method import tool as tool
    from agent_runtime.handler import callable as callable
    from agent_runtime.hosting.state_reader import StateHistoryEntry as StateHistoryEntry
    from agent_runtime.hosting.state_reader import StateSnapshot as StateSnapshot
    from agent_runtime.identity import AgentRef as AgentRef
    from agent_runtime.json_value import Json as Json
    from agent_runtime.mutation import Receipt as Receipt
    from agent_runtime.runtime import AgentRuntime as AgentRuntime
    from agent_runtime.session.direct_session_store import (
        open_session_store as open_session_store,
    )
    from agent_runtime.session.message import text_message as text_message
    from agent_runtime.session.session import Session as Session
    from agent_runtime.session.session_manager import SessionManager as SessionManager
    from agent_runtime.state import UNSET as UNSET
    from agent_runtime.steps import AgentStep as AgentStep
    from agent_runtime.storage.protocol import Retention as Retention


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'agent_runtime' has no attribute {name!r}")
    return getattr(importlib.import_module(f"agent_runtime.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
