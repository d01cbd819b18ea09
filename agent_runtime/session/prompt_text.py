"""How context blocks are written into the system prompt (contract 12)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from agent_runtime.session.context_block import ContextBlock

SEPARATOR = "═" * 46
SHORTEST_SEPARATOR = 3

_LINE_BREAKS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_INVISIBLE = {"Cf", "Cc"}


def prompt_text(blocks: Iterable[ContextBlock]) -> str:
    """Write the blocks as one text, in order; empty if there is none to show.

    A block without content is left out, unless the model may write, load or search it.
    """
    return "\n\n".join(
        f"{SEPARATOR}\n{_header(block)}\n{SEPARATOR}\n{_harmless(block.content)}"
        for block in blocks
        if block.content or block.is_writable or block.is_keyed
    )


def one_line(text: str) -> str:
    """Return a text with every run of line breaks as one space."""
    return _LINE_BREAKS.sub(" ", text)


def usage_percent(tokens: int, max_tokens: int) -> int:
    """Return the share of a limit above 0, rounded half up (unlike `round`)."""
    return (200 * tokens + max_tokens) // (2 * max_tokens)


def _header(block: ContextBlock) -> str:
    header = one_line(block.label).upper()
    if block.description:
        header += f" ({one_line(block.description)})"
    if block.max_tokens:
        percent = usage_percent(block.tokens, block.max_tokens)
        header += f" [{percent}% — {block.tokens}/{block.max_tokens} tokens]"
    return f"{header} {_tag(block)}"


def _tag(block: ContextBlock) -> str:
    if block.is_searchable:
        return "[searchable]"
    if block.is_skill:
        return "[loadable]"
    return "[writable]" if block.is_writable else "[readonly]"


def _harmless(content: str) -> str:
    # Whoever writes a block must not be able to draw the header of another (F17).
    if "═" not in content:
        return content
    return "".join(
        f" {line}" if _looks_like_separator(line) else line
        for line in content.splitlines(keepends=True)
    )


def _looks_like_separator(line: str) -> bool:
    if line.startswith(" "):
        return False
    visible = [char for char in line if not char.isspace() and not _is_invisible(char)]
    return len(visible) >= SHORTEST_SEPARATOR and set(visible) == {"═"}


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) in _INVISIBLE
