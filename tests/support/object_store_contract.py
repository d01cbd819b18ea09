"""What every object store must do, run on each of them."""

from __future__ import annotations

import pytest

from agent_runtime.errors import ContextBlockError
from agent_runtime.session.object_store import MetadataStore, ObjectStore

NO_KEYS = ["", "/", "/etc/passwd", "a//b", "a/", ".", "..", "../x", "a/../../x", "a/./b", "a\0b",
           "a\nb", "a\x7f", "\ud800"]  # fmt: skip
KEYS = [
    "plain",
    "a/b/c",
    "with space",
    "größe",
    "用户",
    "a+b",
    "a%20b",
    "50%",
    "a?b#c",
    "~t",
    "é{x}",
]


async def described(store: ObjectStore, prefix: str = "") -> dict[str, str | None]:
    """Return all objects below a prefix with their descriptions, in the order listed."""
    page = await store.list(prefix)
    assert page.cursor is None
    found: dict[str, str | None] = {}
    for item in page.objects:
        metadata = item.metadata
        if metadata is None:
            assert isinstance(store, MetadataStore)
            metadata = await store.get_metadata(item.key)
        found[item.key] = metadata.get("description")
    return found


class ObjectStoreContract:
    """Tests of a store that the fixture `store` brings."""

    async def test_a_new_store_is_empty(self, store: ObjectStore) -> None:
        """Nothing is listed and nothing found."""
        assert (await described(store), await store.get("a")) == ({}, None)

    @pytest.mark.parametrize("key", KEYS)
    async def test_keys_are_taken_as_given(self, store: ObjectStore, key: str) -> None:
        """Whatever signs they hold."""
        await store.put(key, f"text of {key}", {"description": "d"})

        assert await store.get(key) == f"text of {key}"
        assert await described(store) == {key: "d"}

    @pytest.mark.parametrize("key", NO_KEYS)
    async def test_other_keys_are_none(self, store: ObjectStore, key: str) -> None:
        """Nothing is found there, nothing is written."""
        assert await store.get(key) is None
        with pytest.raises(ContextBlockError, match="is no key"):
            await store.put(key, "x")
        assert await described(store) == {}

    async def test_putting_again_replaces_all(self, store: ObjectStore) -> None:
        """The description too."""
        await store.put("a", "long text", {"description": "first"})
        await store.put("a", "x")

        assert (await store.get("a"), await described(store)) == ("x", {"a": None})

    @pytest.mark.parametrize(
        "text", ["plain", "Größe: 用户 😀", "two\nlines\t", "=?utf-8?q?x?=", 'a "b" \\', "x" * 1400]
    )
    async def test_any_description(self, store: ObjectStore, text: str) -> None:
        """It comes back as it was."""
        await store.put("a", text, {"description": text})

        assert (await store.get("a"), await described(store)) == (text, {"a": text})

    async def test_prefixes_are_of_letters(self, store: ObjectStore) -> None:
        """Not of whole names, and in the order of keys."""
        for key in ("skills/s02", "skills/s01", "skills/t", "skillset", "other"):
            await store.put(key, "x")

        assert [*await described(store, "skills/s0")] == ["skills/s01", "skills/s02"]
        assert [*await described(store, "skills/")] == ["skills/s01", "skills/s02", "skills/t"]
        assert [*await described(store, "skills")] == [
            "skills/s01", "skills/s02", "skills/t", "skillset",
        ]  # fmt: skip
        assert await described(store, "nothing/") == {}

    async def test_half_a_surrogate_pair_is_refused(self, store: ObjectStore) -> None:
        """It has no form in UTF-8; what was there stays."""
        await store.put("a", "old")
        with pytest.raises(ContextBlockError, match="surrogate"):
            await store.put("a", "new \ud800")

        assert await store.get("a") == "old"
