"""A configured model, ready to be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_runtime.llm.chat_model import ChatModel
from agent_runtime.llm.model_config import ModelConfig

if TYPE_CHECKING:
    from agent_runtime.llm.http_transport import HttpTransport


def open_model(config: ModelConfig, *, transport: HttpTransport | None = None) -> ChatModel:
    """Return the model of a configuration; nothing is sent, and no key read, before it is asked.

    Args:
        transport: Connections to share with other models; closing them is then the caller's.
    """
    # The HTTP library takes long to import; who only names models need not wait for it.
    from agent_runtime.llm.anthropic import Anthropic
    from agent_runtime.llm.http_chat_model import HttpChatModel
    from agent_runtime.llm.openai_compatible import OpenAICompatible

    dialect = Anthropic(config) if config.provider == "anthropic" else OpenAICompatible(config)
    return HttpChatModel(config, dialect, transport)
