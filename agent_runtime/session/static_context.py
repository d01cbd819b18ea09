"""Instructions that are part of the program."""

from __future__ import annotations


class StaticContextProvider:
    """A read-only block's text that changes with a release only.

    A frozen prompt that was stored with another text is rendered anew (contract 13.5).
    """

    is_static = True

    def __init__(self, text: str) -> None:
        self._text = text

    def get(self) -> str:
        """Return the text."""
        return self._text
