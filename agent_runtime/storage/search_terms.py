"""What the full-text index holds of a text, and what a query asks it for.

Every term begins with the scope it belongs to (a session, a searchable block), so that the index of
one scope is as if there were no other: neither hits nor cost nor ranking cross it. Terms are ASCII
letters and digits alone; so SQLite's and PostgreSQL's parsers see the same words, and nothing a
user writes is ever query syntax. Scripts without spaces are indexed as overlapping pairs of
characters (contract 16.1, F26).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import orjson

MAX_INDEXED_CHARS = 512 * 1024
MAX_QUERY_WORDS = 64
MAX_QUERY_TERMS = 256
_MAX_WORD = 200

# PostgreSQL refuses an entry whose words and positions take 1 MiB.
_MAX_ENTRY = 1_000_000
_ENTRY_OF_TERM, _ENTRY_OF_REPEAT = 5, 2

# No vowel, "y" or "s": stemmers leave a word of these alone. "z" ends a scope.
_LETTERS = "bcdfghjklmnpqrtvwx"
_BASE = len(_LETTERS)
_CODE_POINT_WIDTH = 5

_ASCII_WORD = re.compile("[a-z0-9]+")
_ACCENT = re.compile("[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u064b-\u065f\u0670]")
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\uac00-\ud7a3\u1100-\u11ff"  # Hangul
    "\U00020000-\U0003ffff"
)
_SPACED_WITH_MARKS = "\u0900-\u0963\u0966-\u0dff\u0f00-\u0fbc"
_SEGMENT = re.compile(
    f"([{_UNSPACED}]+)|((?:(?![{_UNSPACED}])(?:[^\\W_]|[{_SPACED_WITH_MARKS}]))+)"
)


@dataclass(frozen=True, slots=True)
class Phrase:
    """Terms that stand side by side; the last one may be only the beginning of a term."""

    terms: tuple[str, ...]
    is_prefix: bool = False


def scope_prefix(scope: int) -> str:
    """Return what the terms of a scope begin with; no prefix begins another."""
    return _encode(scope) + "z"


def index_terms(text: str, scope: int) -> str:
    """Return the terms of a text for the index of its scope, separated by spaces.

    Only the first 524,288 characters are indexed, and of those no more than about a million
    characters of different terms.
    """
    prefix = scope_prefix(scope)
    if text.isascii() and len(text) * (len(prefix) + _ENTRY_OF_TERM + 1) <= _MAX_ENTRY:
        # Whatever its words are, they fit.
        return " ".join([prefix + word[:_MAX_WORD] for word in _ASCII_WORD.findall(text.lower())])
    terms: list[str] = []
    known: set[str] = set()
    size = 0
    for word in _words(text[:MAX_INDEXED_CHARS]):
        term = prefix + word
        size += _ENTRY_OF_REPEAT if term in known else len(term) + _ENTRY_OF_TERM
        if size > _MAX_ENTRY:
            break
        known.add(term)
        terms.append(term)
    return " ".join(terms)


def query_phrases(query: str, scope: int) -> list[Phrase]:
    """Return the phrases that a text of the scope must hold, all of them, to match a query.

    Empty if the query has no word; such a query finds nothing. Only its first 64 different words
    count, and of those the first 256 terms.
    """
    prefix = scope_prefix(scope)
    phrases: dict[Phrase, None] = {}
    left = MAX_QUERY_TERMS
    for part in list(dict.fromkeys(query.replace("\0", " ").split()))[:MAX_QUERY_WORDS]:
        for words, is_prefix in _phrases(_folded(part)):
            if left:
                terms = tuple(prefix + word for word in words[:left])
                left -= len(terms)
                phrases[Phrase(terms, is_prefix)] = None
    return list(phrases)


def fts5_query(alternatives: Sequence[Sequence[Phrase]]) -> str:
    """Spell a search for SQLite: any of the alternatives, all phrases of it."""
    return " OR ".join(
        "(" + " AND ".join(_fts5_phrase(phrase) for phrase in phrases) + ")"
        for phrases in alternatives
    )


def tsquery_list(alternatives: Sequence[Sequence[Phrase]]) -> str:
    """Spell a search for PostgreSQL's `to_tsquery`: a JSON array with a query for each alternative.

    Of one query with all of them the rank would depend on how many there are.
    """
    return orjson.dumps(
        [" & ".join(_tsquery_phrase(phrase) for phrase in phrases) for phrases in alternatives]
    ).decode()


def _fts5_phrase(phrase: Phrase) -> str:
    return f'"{" ".join(phrase.terms)}"' + ("*" if phrase.is_prefix else "")


def _tsquery_phrase(phrase: Phrase) -> str:
    text = " <-> ".join(phrase.terms)
    return f"{text}:*" if phrase.is_prefix else f"({text})"


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    bare = _ACCENT.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return unicodedata.normalize("NFKC", bare)


def _words(text: str) -> Iterator[str]:
    for word, is_unspaced in _segments(_folded(text)):
        if is_unspaced:
            yield from _pairs(word)
            yield _ascii(word[-1])
        else:
            yield _ascii(word)[:_MAX_WORD]


def _phrases(text: str) -> Iterator[tuple[list[str], bool]]:
    """Return what of a text stands side by side, and whether it is only a word's beginning."""
    spaced: list[str] = []
    for word, is_unspaced in _segments(text):
        if not is_unspaced:
            spaced.append(_ascii(word)[:_MAX_WORD])
            continue
        if spaced:
            yield spaced, False
            spaced = []
        yield ([_ascii(word)], True) if len(word) == 1 else (list(_pairs(word)), False)
    if spaced:
        yield spaced, False


def _segments(text: str) -> Iterator[tuple[str, bool]]:
    if text.isascii():
        for word in _ASCII_WORD.findall(text):
            yield word, False
        return
    for match in _SEGMENT.finditer(text):
        yield match[0], match[1] is not None


def _pairs(run: str) -> Iterator[str]:
    for first, second in pairwise(run):
        yield _ascii(first) + _ascii(second)


def _ascii(word: str) -> str:
    if word.isascii():
        return word
    return "".join(
        char if char.isascii() else _encode(ord(char), _CODE_POINT_WIDTH) for char in word
    )


def _encode(number: int, width: int = 1) -> str:
    digits = ""
    while number or len(digits) < width:
        number, digit = divmod(number, _BASE)
        digits = _LETTERS[digit] + digits
    return digits
