"""docs/chat.md: its agent talks, and its test passes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agent_runtime.llm.open_models import process_models
from agent_runtime.local.temporal_server import TemporalServer

PAGE = (Path(__file__).parents[2] / "docs" / "chat.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def names_of(block: str) -> dict[str, Any]:
    """Run a block as a module and return its names."""
    namespace: dict[str, Any] = {"__name__": "page"}
    exec(compile(block, "docs/chat.md", "exec"), namespace)
    return namespace


async def test_the_agent_of_the_page_passes_the_test_of_the_page(
    temporal: TemporalServer, tmp_path: Path
) -> None:
    """As they stand there."""
    [agent, _, test] = BLOCKS
    assistant = names_of(agent)["Assistant"]

    await names_of(test)["check"]([assistant], temporal.address, str(tmp_path))

    assert process_models.default is None


def test_the_summarizer_of_the_page_reads_what_its_window_allows() -> None:
    """Its set-up is accepted."""
    compact = names_of(BLOCKS[1])["compact"]

    assert compact.max_prompt_chars > 300_000
