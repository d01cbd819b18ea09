"""Reasoning that a model writes into its text: `<think>` first, then the answer."""

from __future__ import annotations

from typing import Literal

_START, _END = "<think>", "</think>"


class InlineReasoning:
    """Tells reasoning from text, piece by piece as they arrive.

    Only a text that begins with `<think>` has reasoning; the word further on is text. White space
    around reasoning is dropped.
    """

    def __init__(self) -> None:
        self._held = ""
        self._place: Literal["start", "reasoning", "after", "text"] = "start"

    def feed(self, piece: str) -> tuple[str, str]:
        """Return what is certain by now, as (text, reasoning)."""
        if self._place == "text":
            return piece, ""
        held, self._held = self._held + piece, ""
        if self._place == "start":
            start = held.lstrip()
            if len(start) < len(_START) and _START.startswith(start):
                self._held = held
                return "", ""
            if not start.startswith(_START):
                self._place = "text"
                return held, ""
            self._place, held = "reasoning", start[len(_START) :].lstrip()
        reasoning = ""
        if self._place == "reasoning":
            reasoning, end, held = held.partition(_END)
            if not end:
                kept = _overlap(reasoning)
                self._held = reasoning[len(reasoning) - kept :]
                return "", reasoning[: len(reasoning) - kept]
            self._place = "after"
        text = held.lstrip()
        if text:
            self._place = "text"
        return text, reasoning

    def finish(self) -> tuple[str, str]:
        """Return what was still held back when the answer ended, as (text, reasoning)."""
        held, self._held = self._held, ""
        return ("", held) if self._place == "reasoning" else (held, "")


def _overlap(text: str) -> int:
    # How much of the end of a text may be the beginning of the end mark.
    return next(size for size in range(len(_END) - 1, -1, -1) if text.endswith(_END[:size]))
