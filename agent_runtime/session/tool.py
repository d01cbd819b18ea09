"""A tool as models are told of it and as the program runs it (contract 14)."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from agent_runtime.errors import (
    AgentDestroyedError,
    AgentRuntimeError,
    ConfigurationError,
    HandlerDivergedError,
    StorageUnavailableError,
    public_text,
    text_of,
)
from agent_runtime.json_value import Json

logger = logging.getLogger("agent_runtime")

MAX_RESULT_CHARACTERS = 32_000
ERROR_PREFIX = "Error: "

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool.

    Args:
        name: What the model calls it: 1 to 64 ASCII letters, digits, `_` and `-`.
        description: What it does, for the model.
        parameters: JSON schema of its arguments, of the type `object`.
        run: The work behind `execute`; what it raises is told as text.

    Raises:
        ConfigurationError: Providers would refuse its name or its parameters, and with it each
            request that offers it.
    """

    name: str
    description: str
    parameters: dict[str, Json]
    run: Callable[[Mapping[str, Json]], Awaitable[str]]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"{self.name!r:.80} is no name of a tool; write 1 to 64 ASCII letters, digits, "
                "_ and -"
            )
        if self.parameters.get("type") != "object":
            raise ConfigurationError(
                f"the parameters of the tool {self.name} are no JSON schema of an object; write "
                '{"type": "object", "properties": {...}}'
            )

    async def execute(self, arguments: Mapping[str, Json]) -> str:
        """Run it and return what the model is to read, at most 32,000 characters.

        A failure is a text beginning with `Error: `.

        Raises:
            StorageUnavailableError: The handler that it runs in is to be repeated.
            HandlerDivergedError: That handler is at fault, not the tool.
            AgentDestroyedError: Nothing is left to go on with.
        """
        try:
            if not isinstance(arguments, Mapping):
                return f"{ERROR_PREFIX}the arguments of {self.name} must be an object"
            return capped(await self.run(arguments))
        except (AgentDestroyedError, HandlerDivergedError, StorageUnavailableError):
            raise
        except AgentRuntimeError as error:
            logger.warning("the tool %s failed: %s", self.name, error)
            return capped(f"{ERROR_PREFIX}{public_text(error)}")
        except Exception as error:
            logger.exception("the tool %s failed", self.name)
            return capped(f"{ERROR_PREFIX}{text_of(error) or type(error).__name__}")


def capped(text: str, max_characters: int = MAX_RESULT_CHARACTERS) -> str:
    """Return a text that a model can be sent: short enough, no half characters (F22b).

    What is cut off is told at its end.
    """
    if not text.isascii():
        # File names and cut-off output bring them, and no storage takes them.
        text = text.encode("utf-8", "replace").decode()
    if len(text) <= max_characters:
        return text
    note = f"\n[Truncated: the whole text has {len(text)} characters.]"
    return text[: max(0, max_characters - len(note))] + note


def to_openai_tool(tool: Tool) -> dict[str, Json]:
    """Return a tool as OpenAI's chat completions take it."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": {"properties": {}, **tool.parameters},
        },
    }


def to_anthropic_tool(tool: Tool) -> dict[str, Json]:
    """Return a tool as Anthropic's messages take it."""
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    }
