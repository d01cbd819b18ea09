"""The models that a process has open: each configuration once, at its first use."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TypeAlias

from agent_runtime.llm.chat_model import ChatModel
from agent_runtime.llm.model_config import ModelConfig
from agent_runtime.llm.open_model import open_model

logger = logging.getLogger("agent_runtime")

ModelChoice: TypeAlias = ModelConfig | ChatModel
"""A model to be opened when it is first asked, or one that its owner has open and closes."""


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A model with the configuration that tells its window and prices.

    Args:
        config: Of a model that was given open: the defaults under its name, without prices.
    """

    model: ChatModel
    config: ModelConfig


class OpenModels:
    """Opens models and keeps them, so that all calls of a process share their connections.

    One for each process is enough: `process_models`.
    """

    def __init__(self) -> None:
        self.default: ModelChoice | None = None
        """What is asked where nothing else is said; None for no model at all."""
        self._open: dict[str, OpenModel] = {}

    def get(self, choice: ModelChoice) -> OpenModel:
        """Return a model, open; the same one for equal configurations."""
        if not isinstance(choice, ModelConfig):
            return OpenModel(choice, ModelConfig(model=choice.name or "model"))
        key = choice.model_dump_json()
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = OpenModel(open_model(choice), choice)
        return found

    def get_default(self) -> OpenModel | None:
        """Return the default model, open, or None if there is none."""
        return None if self.default is None else self.get(self.default)

    async def close(self) -> None:
        """Close what was opened here; a later `get` opens it anew."""
        opened, self._open = list(self._open.values()), {}
        results = await asyncio.gather(
            *(each.model.close() for each in opened), return_exceptions=True
        )
        for error in results:
            if isinstance(error, BaseException):
                logger.warning("a model's connections were not closed: %s", type(error).__name__)


process_models = OpenModels()
"""Those of this process; a worker's `AgentRuntime` sets the default and closes them."""
