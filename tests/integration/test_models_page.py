"""docs/models.md: its examples do what they say, and its tables are complete."""

from __future__ import annotations

import dataclasses
import re
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from temporalio.testing import ActivityEnvironment

from agent_runtime.errors import ModelError, error_types
from agent_runtime.llm import ModelConfig
from agent_runtime.testing import Answer, ScriptedModelServer
from agent_runtime.testing.model_script import RefusalKind

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def names_of(block: str) -> dict[str, Any]:
    """Run a block as a module and return its names."""
    namespace: dict[str, Any] = {"__name__": "page"}
    exec(compile(block, "docs/models.md", "exec"), namespace)
    return namespace


async def test_the_activity_of_the_page_heartbeats() -> None:
    """It returns the summary, and tells Temporal that it is alive while the answer arrives."""
    beats: list[object] = []
    environment = ActivityEnvironment()
    limit = timedelta(seconds=30)
    environment.info = dataclasses.replace(environment.info, start_to_close_timeout=limit)
    environment.on_heartbeat = lambda *details: beats.append(details)

    async with ScriptedModelServer(
        Answer("short words in several pieces", piece_chars=4)
    ) as server:
        summary = await environment.run(names_of(BLOCKS[1])["summarize"], server.config(), "Long.")

    assert summary == "short words in several pieces"
    assert len(beats) > 8


@pytest.mark.parametrize(
    "name", ["test_without_a_provider", "test_with_a_provider_that_has_troubles"]
)
async def test_the_tests_of_the_page_pass(name: str) -> None:
    """As they stand there."""
    await names_of(BLOCKS[2])[name]()


@pytest.mark.parametrize("name", ModelConfig.model_fields)
def test_every_field_is_on_the_page(name: str) -> None:
    """With default and description."""
    field = ModelConfig.model_fields[name]
    default = (
        "required" if field.is_required() else f"`{field.get_default(call_default_factory=True)}`"
    )

    row = f"| `{name}` | {default} | {field.description} |".replace("`None`", "none")
    assert row in PAGE


def test_every_error_and_refusal_is_on_the_page() -> None:
    """Nobody must read the code to know what can happen."""
    errors = {name for name, cls in error_types().items() if issubclass(cls, ModelError)}

    assert {name for name in errors if f"`{name}`" not in PAGE} == set()
    assert {kind for kind in get_args(RefusalKind) if f"`{kind}`" not in PAGE} == set()
