"""Texts and ids, as callers give them."""

from __future__ import annotations

from agent_runtime.errors import InvalidRequestError

MAX_ID_BYTES = 2_000
"""An index of PostgreSQL's has room for about 2,700, a session's id and a label together."""

MAX_LABEL_BYTES = 500


def given_text(value: object, what: str) -> str:
    """Return a text.

    Raises:
        InvalidRequestError: It is none.
    """
    if not isinstance(value, str):
        raise InvalidRequestError(f"{what} is a text, not {type(value).__name__}")
    return value


def given_leaf(value: object) -> str | None:
    """Return the id of the message that ends a path, None for the latest leaf's.

    Raises:
        InvalidRequestError: It is no text, or none that any message has as its id.
    """
    if value is None:
        return None
    leaf_id = given_text(value, "leaf_id")
    if not is_storable_id(leaf_id):
        raise InvalidRequestError(
            f"leaf_id is a message's id, a text of up to {MAX_ID_BYTES} bytes of UTF-8, "
            f"not {leaf_id!r:.80}"
        )
    return leaf_id


def is_storable_id(text: str) -> bool:
    """Tell whether both engines can keep an id: no U+0000, no half characters, not too long."""
    try:
        return "\0" not in text and len(text.encode()) <= MAX_ID_BYTES
    except UnicodeEncodeError:
        return False


def byte_length(text: str) -> int:
    """Return how long a text is in UTF-8, half characters included."""
    return len(text.encode(errors="surrogatepass"))
