"""Texts in which nothing can be seen."""

from __future__ import annotations

import unicodedata

_INVISIBLE = ("Cc", "Cf", "Mn")


def is_blank(text: str) -> bool:
    """Tell whether a text has nothing but white space and characters that show nothing alone.

    Models answer with zero-width spaces and the like where they have nothing to say.
    """
    return all(char.isspace() or unicodedata.category(char) in _INVISIBLE for char in text)
