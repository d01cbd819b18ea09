"""Sentences and terms of text in any language, without dictionaries or data.

A wrong seam only makes a quotation shorter or longer, so simple rules do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_SENTENCE_CHARS = 300
"""A sentence is quoted up to so many characters."""

_STEM_CHARS = 6

# Ends of sentences: full-width ones need no space behind them. Then quotes may close.
_SEAM = re.compile(
    r"(?<=[\u3002\uff01\uff1f\uff61])|(?<=[.!?\u2026\u061f\u0964])[\"'\u201d\u2019\u00bb)\]]{0,3}\s+"
)
_ABBREVIATION = re.compile(
    r"(?:^\d+|(?:^|[\s(])(?:\w|dr|mr|mrs|ms|prof|st|no|nr|vs|ca|bzw|etc|usw|resp|inkl|vgl|fig"
    r"|approx|e\.g|i\.e|z\.b|d\.h|u\.a|p\.ej|\u0442\.\u0435|\u0442\.\u0434|sra?|mme|art))\.$",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"[?\uff1f\u061f]\W{0,3}$")

# Scripts that put no spaces between words: Thai to Khmer, kana, ideographs, Hangul.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_TERM = re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text in order, each on one line, without blank ones. Linear."""
    sentences: list[str] = []
    for line in text.splitlines():
        start = 0
        for seam in _SEAM.finditer(line):
            if not _goes_on(line, start, seam):
                sentences.append(line[start : seam.end()])
                start = seam.end()
        sentences.append(line[start:])
    return [words for sentence in sentences if (words := " ".join(sentence.split()))]


def terms(text: str) -> Iterator[str]:
    """Yield what a text speaks of: beginnings of words, pairs of characters where words touch."""
    for run in _TERM.findall(text.lower()):
        if not _IS_UNSPACED.match(run):
            if len(run) > 1:
                yield run[:_STEM_CHARS]
        elif len(run) == 1:
            yield run
        else:
            yield from (run[index : index + 2] for index in range(len(run) - 1))


def is_question(sentence: str) -> bool:
    """Say whether a sentence ends with a question mark of any script."""
    return bool(_QUESTION.search(sentence[-4:]))


def clipped(sentence: str, max_chars: int = MAX_SENTENCE_CHARS) -> str:
    """Return a sentence on one line, cut with an ellipsis when it is too long."""
    line = " ".join(sentence.split())
    return line if len(line) <= max_chars else f"{line[: max(0, max_chars - 1)].rstrip()}…"


def _goes_on(text: str, start: int, seam: re.Match[str]) -> bool:
    following = text[seam.end() : seam.end() + 1]
    if following.islower():
        return True
    before = text[max(start, seam.start() - 12) : seam.start()]
    return before.endswith(".") and bool(_ABBREVIATION.search(before))
