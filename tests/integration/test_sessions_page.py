"""docs/sessions.md: its examples print what they say, and its agent answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agent_runtime.session.session import Session
from tests.conftest import Serve

PAGE = (Path(__file__).parents[2] / "docs" / "sessions.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
PROGRAMS = [block for block in BLOCKS if "def main(" in block]


def names_of(block: str) -> dict[str, Any]:
    """Run a block as a module and return its names."""
    namespace: dict[str, Any] = {"__name__": "page"}
    exec(compile(block, "docs/sessions.md", "exec"), namespace)
    return namespace


@pytest.mark.parametrize("block", PROGRAMS, ids=range(len(PROGRAMS)))
async def test_a_program_of_the_page_prints_what_it_says(
    block: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each line that a comment announces, in that order."""
    monkeypatch.chdir(tmp_path)
    announced = re.findall(r"# prints: (.*)", block)

    await names_of(block)["main"]()

    printed = capsys.readouterr().out.splitlines()
    assert announced != []
    assert [line for line in printed if line in announced] == announced


async def test_the_agent_of_the_page_answers(serve: Serve) -> None:
    """With the length of its prompt, and services see what was said."""
    [block] = [block for block in BLOCKS if "class Support" in block]
    names = names_of(block)
    name = uuid4().hex[:12]
    async with serve(names["Support"]) as served:
        answer = await served.client.agent("Support", name).call("ask", "q1", "Hello?")

        assert re.fullmatch(r"I read \d{3} characters of instructions\.", answer)
        assert await names["transcript"](served.client, name) == ["q1", "q1-answer"]


def test_every_method_of_the_page_exists() -> None:
    """Names in the tables and the text are those of a session."""
    named = set(re.findall(r"`(?:await session\.)?([a-z_]+)\(", PAGE))
    known = {name for name in dir(Session) if not name.startswith("_")}

    strangers = {"get", "set", "load", "search", "execute", "session", "tools"}
    assert named - known - strangers - {"create_compact_function"} == set()
