"""docs/compaction.md: its agent is compacted, by itself and by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agent_runtime import Session, open_session_store, text_message
from tests.conftest import Serve
from tests.support.eventually import assert_eventually

PAGE = (Path(__file__).parents[2] / "docs" / "compaction.md").read_text()


def blocks() -> dict[str, Any]:
    """Return what the page's code defines."""
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "docs/compaction.md", "exec"), namespace)
    return namespace


async def test_the_pages_agent_is_compacted(serve: Serve) -> None:
    """Extracts stand for what was said, as no model is configured."""
    page = blocks()
    name = uuid4().hex[:12]
    async with serve(page["Support"]) as served:
        agent = served.client.agent("Support", name)
        for number in range(40):
            text = f"Order {number} came late and was broken. " * 5
            await agent.call("hear", f"m{number}", text)

        async def is_short() -> None:
            assert await agent.session().estimate_tokens() < 1_000

        await assert_eventually(is_short)
        assert await agent.session().get_path_length() == 40
        text = await page["compact_now"](served.client, name)
        assert text.startswith(("## Topic", "skipped: "))


@pytest.mark.parametrize(("counter", "expected"), [("estimated", 18), ("counted", 16)])
async def test_the_pages_counters_see_more_than_a_quarter_of_a_token(
    tmp_path: Path, counter: str, expected: int
) -> None:
    """In a Chinese sentence of 14 characters, for which the default is 8."""
    message = text_message("user", "我喜欢喝咖啡你呢今天天气很好", id="m0")
    async with await open_session_store(tmp_path) as store:
        plain = Session.create(store)
        session = blocks()[counter](Session.create(store))
        await session.append_message(message)

        assert await plain.estimate_tokens() == 8
        assert await session.estimate_tokens() == expected
