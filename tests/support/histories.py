"""Messages as sessions store them, and random histories with tools that know their own pairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Message = dict[str, Any]


def text_message(identifier: str, text: str, role: str = "user") -> Message:
    """A message of one text part."""
    return {"id": identifier, "role": role, "parts": [{"type": "text", "text": text}]}


def chat(count: int, text: str = "x" * 80, first: int = 0) -> list[Message]:
    """Messages m0, m1 and so on, of user and assistant in turn."""
    roles = ("user", "assistant")
    return [text_message(f"m{n}", text, roles[n % 2]) for n in range(first, first + count)]


def summary_message(identifier: str, text: str) -> Message:
    """What a read returns in place of an overlay."""
    return text_message(f"compaction_{identifier}", text, "assistant")


def call_message(identifier: str, *call_ids: str) -> Message:
    """An assistant's message that calls a tool once or several times at the same time."""
    parts = [
        {"type": "tool-look", "toolCallId": call, "input": {"q": call}, "state": "input-available"}
        for call in call_ids
    ]
    return {"id": identifier, "role": "assistant", "parts": parts}


def result_message(identifier: str, call_id: str, output: Any = "found") -> Message:
    """A message of the role `tool` with one call's result."""
    part = {"type": "tool-result", "toolCallId": call_id, "toolName": "look", "output": output}
    return {"id": identifier, "role": "tool", "parts": [part]}


def finished_call(identifier: str, call_id: str, output: Any = "found") -> Message:
    """An assistant's message that holds a call together with its result."""
    part = {
        "type": "tool-look",
        "toolCallId": call_id,
        "input": {"q": 1},
        "output": output,
        "state": "output-available",
    }
    return {"id": identifier, "role": "assistant", "parts": [part]}


@dataclass
class History:
    """A random history; `pairs` are the positions of calls and of the messages with results."""

    messages: list[Message] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)

    def separates(self, boundary: int) -> bool:
        """Say whether some call lies before the boundary and its result behind it."""
        return any(call < boundary <= answer for call, answer in self.pairs)


@st.composite
def histories(draw: st.DrawFn, *, are_ids_reused: bool = False) -> History:
    """Turns with parallel calls, answered together or apart, in any order, also across a turn."""
    history = History()

    def identifier() -> str:
        return f"m{len(history.messages)}"

    for turn in range(draw(st.integers(0, 6))):
        text = draw(st.sampled_from(["hello", "x" * 200, "用户喜欢咖啡", "a\n---\nb"]))
        history.messages.append(text_message(identifier(), text))
        kind = draw(st.sampled_from(["text", "finished", "calls"]))
        if kind == "text":
            history.messages.append(text_message(identifier(), text, "assistant"))
        elif kind == "finished":
            call = "call_0" if are_ids_reused else f"c{turn}"
            history.messages.append(finished_call(identifier(), call))
        else:
            count = draw(st.integers(1, 4))
            calls = [f"call_{n}" if are_ids_reused else f"c{turn}_{n}" for n in range(count)]
            made_at = len(history.messages)
            history.messages.append(call_message(identifier(), *calls))
            for call in draw(st.permutations(calls)):
                if draw(st.integers(0, 4)) == 0:
                    history.messages.append(text_message(identifier(), "still there?"))
                history.pairs.append((made_at, len(history.messages)))
                history.messages.append(result_message(identifier(), call, draw(_OUTPUTS)))
    return history


_OUTPUTS = st.sampled_from(["found", "", 0, False, [], {"rows": [1, 2.0]}, "y" * 2_000])
