"""What a bucket of text objects must be able to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object as a listing tells it.

    Args:
        metadata: What was put with it; None if the listing does not tell.
        version: Differs whenever the object or its metadata changed; None if unknown.
    """

    key: str
    metadata: Mapping[str, str] | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """A part of a listing.

    Args:
        cursor: What brings the next part, None after the last.
    """

    objects: Sequence[StoredObject]
    cursor: str | None = None


class ObjectStore(Protocol):
    """A bucket of text objects under keys that are taken as given."""

    async def list(self, prefix: str, cursor: str | None = None) -> ObjectPage:
        """Return objects whose key begins with a prefix, in order of keys."""

    async def get(self, key: str) -> str | None:
        """Return an object's text, None if there is none or there cannot be one of that key."""

    async def put(self, key: str, text: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store an object whole, replacing what was there with its metadata.

        Raises:
            ContextBlockError: There cannot be an object of that key.
        """


@runtime_checkable
class MetadataStore(Protocol):
    """A bucket whose listing does not tell metadata."""

    async def get_metadata(self, key: str) -> Mapping[str, str]:
        """Return an object's metadata, nothing if it has none or is gone."""
