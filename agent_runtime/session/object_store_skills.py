"""Skills kept as objects in a bucket or as files in a folder (contract 17)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from agent_runtime.session.object_store import MetadataStore, ObjectStore, StoredObject
from agent_runtime.session.prompt_text import one_line

DESCRIPTION = "description"
MAX_READS = 8


class ObjectStoreSkillProvider:
    """A skill collection in an object store: one object a document.

    Args:
        store: The bucket.
        prefix: Begins the key of each object; the documents' own keys are without it.
        keys: The documents that may be listed and loaded; none or empty for all. Writing is not
            limited by it.
    """

    def __init__(
        self, store: ObjectStore, *, prefix: str = "", keys: Collection[str] | None = None
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._keys = frozenset(keys or ())
        # By object: for which version the description was read.
        self._descriptions: dict[str, tuple[str, str | None]] = {}

    async def get(self) -> str | None:
        """Return the list of documents, a line each with its description; None if there is none."""
        found = [item for item in await self._objects() if self._is_allowed(self._key(item))]
        reads = asyncio.Semaphore(MAX_READS)

        async def line(item: StoredObject) -> str:
            async with reads:
                description = await self._description(item)
            return f"- {self._key(item)}" + (f": {one_line(description)}" if description else "")

        return "\n".join(await asyncio.gather(*map(line, found))) or None

    async def load(self, key: str) -> str | None:
        """Return a document, None if it is not there or not allowed (nothing is asked then)."""
        return await self._store.get(self._prefix + key) if self._is_allowed(key) else None

    async def set(self, key: str, content: str, description: str | None = None) -> None:
        """Store a document whole; without a description it has none from now on."""
        name = self._prefix + key
        self._descriptions.pop(name, None)
        if description:
            await self._store.put(name, content, {DESCRIPTION: description})
        else:
            await self._store.put(name, content)

    def _key(self, item: StoredObject) -> str:
        return item.key.removeprefix(self._prefix)

    def _is_allowed(self, key: str) -> bool:
        return bool(key) and (not self._keys or key in self._keys)

    async def _objects(self) -> list[StoredObject]:
        page = await self._store.list(self._prefix)
        objects = list(page.objects)
        while page.cursor is not None:
            page = await self._store.list(self._prefix, page.cursor)
            objects.extend(page.objects)
        return objects

    async def _description(self, item: StoredObject) -> str | None:
        if item.metadata is not None or not isinstance(self._store, MetadataStore):
            return _description_in(item.metadata)
        known = self._descriptions.get(item.key)
        if known is None or known[0] != item.version:
            description = _description_in(await self._store.get_metadata(item.key))
            if item.version is None:
                return description
            known = self._descriptions[item.key] = (item.version, description)
        return known[1]


def _description_in(metadata: Mapping[str, str] | None) -> str | None:
    return None if metadata is None else metadata.get(DESCRIPTION)
