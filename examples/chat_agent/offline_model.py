"""A language model by a few rules, so that the example runs without any provider.

It sees what a real one would be sent, and nothing else: what it knows about the user it reads in
the prompt and the conversation.
"""

from __future__ import annotations

import asyncio
import re
from datetime import datetime

from agent_runtime.llm import (
    ChatDelta,
    ChatRequest,
    ChatResponse,
    ProgressCallback,
    ToolCall,
    Usage,
)

PAUSE_SECONDS = 0.02

_NAME = re.compile(r"my name is (\w+)", re.IGNORECASE)
_LIKES = re.compile(r"i like ([\w ]+)", re.IGNORECASE)
_TASK = re.compile(r"remind me to ([\w ]+)", re.IGNORECASE)
_FACT = re.compile(r"The user's name is (\w+)")


class OfflineModel:
    """Answers a handful of sentences, with tools; repeats all others politely."""

    name = "offline"

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: datetime | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> ChatResponse:
        """Return the answer, told word by word."""
        answer = _answer(request)
        if isinstance(answer, ToolCall):
            return ChatResponse("", (answer,), "tool_calls", _usage(request, ""), self.name)
        for word in re.findall(r"\S+\s*", answer):
            await asyncio.sleep(PAUSE_SECONDS)
            told = on_progress(ChatDelta(word)) if on_progress else None
            if told is not None:
                await told
        return ChatResponse(answer, usage=_usage(request, answer), model=self.name)

    async def close(self) -> None:
        """Nothing is open."""


def _answer(request: ChatRequest) -> str | ToolCall:
    last = request.messages[-1]
    said = [message.text for message in request.messages if message.role == "user"][-1]
    number = sum(len(message.tool_calls) for message in request.messages) + 1
    if last.role == "tool":
        return _after_tool(request, last.text)
    if found := _NAME.search(said):
        likes = _LIKES.search(said)
        fact = f"The user's name is {found[1]}." + (f" Likes {likes[1]}." if likes else "")
        arguments = {"label": "memory", "content": fact, "action": "append"}
        return ToolCall(f"call-{number}", "set_context", arguments)
    if found := _TASK.search(said):
        return ToolCall(f"call-{number}", "add_task", {"title": found[1]})
    if "my name" in said:
        known = _FACT.search("\n".join(message.text for message in request.messages))
        return f"Your name is {known[1]}." if known else "You have not told me."
    if "my tasks" in said:
        return ToolCall(f"call-{number}", "list_tasks", {})
    return f"You said {len(said.split())} words, beginning with {said.split()[0]!r}."


def _after_tool(request: ChatRequest, result: str) -> str:
    [call] = [message for message in request.messages if message.tool_calls][-1].tool_calls
    if call.name == "set_context":
        return "I will remember that."
    return f"Your tasks: {result}" if call.name == "list_tasks" else f"Done. {result}"


def _usage(request: ChatRequest, answer: str) -> Usage:
    read = sum(len(message.text) for message in request.messages)
    return Usage(input_tokens=read // 4 + 1, output_tokens=len(answer) // 4 + 1)
