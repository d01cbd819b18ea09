"""Language models: asked over HTTP, once for each call, with typed answers and errors."""

from __future__ import annotations

from agent_runtime.llm.chat_model import (
    ChatDelta,
    ChatImage,
    ChatMessage,
    ChatModel,
    ChatRequest,
    ChatResponse,
    ProgressCallback,
    SignedReasoning,
    ToolCall,
    ToolDefinition,
    Usage,
)
from agent_runtime.llm.model_config import ModelConfig, usage_cost
from agent_runtime.llm.open_model import open_model
from agent_runtime.llm.usable_response import usable_response, usage_of

__all__ = [
    "ChatDelta",
    "ChatImage",
    "ChatMessage",
    "ChatModel",
    "ChatRequest",
    "ChatResponse",
    "ModelConfig",
    "ProgressCallback",
    "SignedReasoning",
    "ToolCall",
    "ToolDefinition",
    "Usage",
    "open_model",
    "usable_response",
    "usage_cost",
    "usage_of",
]
