"""Keys of the entries that the model writes to skill and search blocks (contract 11.6)."""

from __future__ import annotations

import re
import struct

MAX_SLUG = 60
FNV_OFFSET, FNV_PRIME = 0x811C9DC5, 0x01000193
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

_PLAIN_TITLE = re.compile(rf"[A-Za-z0-9 -]{{1,{MAX_SLUG}}}")


def entry_key(content: str, title: str | None = None) -> str:
    """Return the key of an entry: the same for the same title, so that it is updated in place.

    A title of up to 60 ASCII letters, digits, spaces and hyphens is its own slug (`Pirate style`:
    `pirate-style`). Any other gets a hash, as its slug does not tell it apart (F18). Without a
    title the content decides.
    """
    if title is None or not title.strip():
        return f"{_slug(content) or 'entry'}-{_hash(content)}"
    slug = _slug(title)
    if slug and _PLAIN_TITLE.fullmatch(title):
        return slug
    return f"{slug or 'entry'}-{_hash(title)}"


def _slug(text: str) -> str:
    # Lengths are counted in UTF-16 units, so that keys agree with those of other languages.
    units = text.encode("utf-16-le", "surrogatepass")[: 2 * MAX_SLUG]
    start = units.decode("utf-16-le", "replace").lower()
    return re.sub("[^a-z0-9]+", "-", start).strip("-")


def _hash(text: str) -> str:
    encoded = text.encode("utf-16-le", "surrogatepass")
    value = FNV_OFFSET
    for unit in struct.unpack(f"<{len(encoded) // 2}H", encoded):
        value = (value ^ unit) * FNV_PRIME & 0xFFFFFFFF
    digits = ""
    while True:
        value, digit = divmod(value, len(DIGITS))
        digits = DIGITS[digit] + digits
        if not value:
            return digits
