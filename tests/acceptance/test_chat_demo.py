"""The chat agent of the examples: offline, and with a provider that the environment names."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from agent_runtime.llm import ChatResponse, ToolCall
from agent_runtime.testing import ScriptedModelServer, ScriptStep
from tests.support.program import Ran, run_program

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "chat_agent" / "demo.py"


async def _run(tmp_path: Path, *options: str, stdin: str = "", **variables: str) -> Ran:
    return await run_program(
        str(DEMO),
        *options,
        cwd=tmp_path,
        stdin=stdin,
        command=(sys.executable,),
        variables={
            "TMPDIR": str(tmp_path),
            "COLUMNS": "200",
            "PYTHONPATH": str(ROOT),
            **variables,
        },
        seconds=280,
    )


async def test_the_chat_agent_forgets_nothing_offline(tmp_path: Path) -> None:
    """Its worker is killed within a turn; memory, list and summary are as without that."""
    ran = await _run(tmp_path)

    assert ran.code == 0, ran
    assert len(re.findall(r"kill -9 of worker \d+", ran.out)) == 1
    assert "summaries are extracts" in ran.out
    assert re.findall(r"│ (ok|WRONG) +│", ran.out) == ["ok"] * 6
    assert os.listdir(tmp_path) == []


async def test_the_end_of_the_input_ends_the_talk(tmp_path: Path) -> None:
    """What is said before is answered."""
    ran = await _run(tmp_path, "--interactive", "--talk", "3", stdin="What is my name?")

    assert "Traceback" not in ran.err
    assert ran.out.count("Your name is Ada.") == 2


async def test_a_provider_that_cannot_be_asked_is_said_in_a_line(tmp_path: Path) -> None:
    """As when nobody has set the key."""
    ran = await _run(tmp_path, AGENT_RUNTIME_MODEL="gpt-5", OPENAI_API_KEY="")

    assert (ran.code, "Traceback" in ran.err) == (1, False), ran
    assert "the conversation has ended: the variable OPENAI_API_KEY is not set" in ran.out


async def test_the_chat_agent_talks_to_a_provider_of_the_environment(tmp_path: Path) -> None:
    """Named by variables alone; the key is sent, and summaries are the model's."""
    memory = {"label": "memory", "content": "The user's name is Ada.", "action": "append"}
    script: list[ScriptStep] = [
        ChatResponse("", (ToolCall("c1", "set_context", memory),), "tool_calls"),
        "Hello Ada.",
        ChatResponse("", (ToolCall("c2", "add_task", {"title": "water"}),), "tool_calls"),
    ]
    async with ScriptedModelServer(*script, otherwise="Ada has to water the plants.") as server:
        ran = await _run(
            tmp_path,
            AGENT_RUNTIME_MODEL="scripted",
            AGENT_RUNTIME_MODEL_BASE_URL=server.url,
            AGENT_RUNTIME_MODEL_API_KEY_ENV="CHAT_KEY",
            CHAT_KEY="key-of-the-test",
        )

        assert ran.code == 0, ran
        assert "summaries are written by model scripted" in ran.out
        assert {each.headers["authorization"] for each in server.requests} == {
            "Bearer key-of-the-test"
        }
        assert any("transcript" in str(each.body["messages"]) for each in server.requests)
