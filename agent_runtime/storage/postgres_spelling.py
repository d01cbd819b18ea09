"""Statements as PostgreSQL reads them: numbered placeholders, and its own names of a few things."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from agent_runtime.json_value import Json
from agent_runtime.storage.postgres_statements import OWN_SPELLING
from agent_runtime.storage.postgres_text import stored_values

_LIST = re.compile(r"json_each\(([?]|:\w+)\) AS (\w+)")
_LIST_NUMBER = re.compile(r"CAST\(\$(\d+) AS TEXT\)::jsonb")
_BYTE_COUNT = re.compile(r"LENGTH\(CAST\(([\w.]+) AS BLOB\)\)")
_NAME = re.compile(r"(?<!:):([a-z]\w*)")

# What is not code: texts, quoted names, comments, dollar-quoted texts; then placeholders.
_TOKEN = re.compile(
    r"""\b[eE]'(?:[^'\\]|\\.|'')*'  | '(?:[^']|'')*' | "(?:[^"]|"")*"
      | --[^\n]* | /\*.*?\*/ | \$(?P<tag>[A-Za-z_]\w*|)\$.*?\$(?P=tag)\$
      | (?P<mark>\?\??)""",
    re.DOTALL | re.VERBOSE,
)


class Spelled(NamedTuple):
    """A statement for PostgreSQL, and what its placeholders are called, if they have names.

    Args:
        lists: Which placeholders take a JSON list whose items the statement reads.
    """

    text: str
    names: tuple[str, ...]
    lists: tuple[int, ...]

    def bind(self, params: Sequence[Json] | Mapping[str, Json]) -> Sequence[Json]:
        """Return the values in order of the placeholders, as PostgreSQL can hold them."""
        if isinstance(params, Mapping):
            params = [params[name] for name in self.names]
        return stored_values(params, self.lists)


@functools.cache
def spell(statement: str) -> Spelled:
    """Translate a statement of this library; the answer is remembered."""
    text = OWN_SPELLING.get(statement, statement)
    text = _LIST.sub(r"jsonb_array_elements(CAST(\1 AS TEXT)::jsonb) AS \2 (value)", text)
    text = _BYTE_COUNT.sub(r"OCTET_LENGTH(\1)", text)
    names = tuple(dict.fromkeys(_NAME.findall(text)))
    if names:
        text = _NAME.sub(lambda found: f"${names.index(found[1]) + 1}", text)
    else:
        text, _ = number_marks(text)
    lists = tuple(int(number) - 1 for number in _LIST_NUMBER.findall(text))
    return Spelled(text, names, lists)


def number_marks(query: str, written: Callable[[int], str] = "${}".format) -> tuple[str, int]:
    """Replace each `?` of a query by a numbered placeholder and return how many there were.

    Those in texts, names and comments are left alone; `??` becomes the operator `?`.

    Args:
        written: Makes the text of a placeholder out of its number, from 1 on.
    """
    count = 0

    def number(found: re.Match[str]) -> str:
        nonlocal count
        mark = found["mark"]
        if mark is None:
            return found[0]
        if mark == "??":
            return "?"
        count += 1
        return written(count)

    return _TOKEN.sub(number, query), count
