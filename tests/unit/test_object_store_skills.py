"""Skills in an object store: which documents are listed, loaded and written."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from agent_runtime.session.object_store import ObjectPage, StoredObject
from agent_runtime.session.object_store_skills import ObjectStoreSkillProvider
from tests.support.context import Context, block


class Bucket:
    """A bucket in memory whose listing has one object a page, and that notes what it is asked."""

    def __init__(self, objects: Mapping[str, str | None]) -> None:
        self.texts = {key: f"# {key}" for key in objects}
        self.described = {
            key: {"description": text} if text else {} for key, text in objects.items()
        }
        self.gets: list[str] = []
        self.puts: list[tuple[str, str, Mapping[str, str] | None]] = []

    async def list(self, prefix: str, cursor: str | None = None) -> ObjectPage:
        """Return one object."""
        keys = [key for key in self.texts if key.startswith(prefix)]
        start = int(cursor or 0)
        page = [self.told(key) for key in keys[start : start + 1]]
        return ObjectPage(page, str(start + 1) if start + 1 < len(keys) else None)

    def told(self, key: str) -> StoredObject:
        """Return what the listing tells of an object."""
        return StoredObject(key, self.described[key])

    async def get(self, key: str) -> str | None:
        """Return an object."""
        self.gets.append(key)
        return self.texts.get(key)

    async def put(self, key: str, text: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store an object."""
        self.puts.append((key, text, metadata))
        self.texts[key] = text
        self.described[key] = dict(metadata or {})


class QuietBucket(Bucket):
    """A bucket whose listing does not tell metadata."""

    version = "1"

    def __init__(self, objects: Mapping[str, str | None]) -> None:
        super().__init__(objects)
        self.heads: list[str] = []

    def told(self, key: str) -> StoredObject:
        """Return the key and version."""
        return StoredObject(key, version=self.version)

    async def get_metadata(self, key: str) -> Mapping[str, str]:
        """Return an object's metadata."""
        self.heads.append(key)
        return self.described[key]


OBJECTS = {
    "skills/tax": "Tax workflows",
    "skills/bank-reconciliation": "Bank reconciliation",
    "skills/hidden": None,
    "other/tax": None,
}


async def test_s126_the_listing() -> None:
    """The documents allowed, page by page, with their descriptions."""
    skills = ObjectStoreSkillProvider(
        Bucket(OBJECTS), prefix="skills/", keys=["tax", "bank-reconciliation"]
    )

    assert await skills.get() == (
        "- tax: Tax workflows\n- bank-reconciliation: Bank reconciliation"
    )


async def test_s127_only_allowed_documents_are_asked_for() -> None:
    """What is not allowed is not there."""
    bucket = Bucket(OBJECTS)
    skills = ObjectStoreSkillProvider(bucket, prefix="skills/", keys=["tax"])

    assert await skills.load("tax") == "# skills/tax"
    assert await skills.load("hidden") is None
    assert bucket.gets == ["skills/tax"]


@pytest.mark.parametrize("keys", [None, []])
async def test_s128_no_keys_are_all_keys(keys: Collection[str] | None) -> None:
    """Without descriptions a line is the key alone."""
    skills = ObjectStoreSkillProvider(Bucket({"tax": None, "hidden": None}), keys=keys)

    assert await skills.get() == "- tax\n- hidden"
    assert await skills.load("hidden") == "# hidden"
    assert await skills.load("unknown") is None


async def test_s129_writing_is_not_limited() -> None:
    """One object is put, with the description as metadata."""
    bucket = Bucket({})
    skills = ObjectStoreSkillProvider(bucket, prefix="skills/", keys=["tax"])
    await skills.set("hidden", "Hidden skill", "Still writable")
    await skills.set("plain", "Plain skill", None)

    assert bucket.puts == [
        ("skills/hidden", "Hidden skill", {"description": "Still writable"}),
        ("skills/plain", "Plain skill", None),
    ]


async def test_an_empty_bucket_lists_nothing() -> None:
    """Nor one whose folder is an object of its own."""
    assert await ObjectStoreSkillProvider(Bucket({})).get() is None
    assert await ObjectStoreSkillProvider(Bucket({"skills/": None}), prefix="skills/").get() is None
    assert await ObjectStoreSkillProvider(Bucket({"skills/": None}), prefix="skills/").load("") is (
        None
    )


async def test_a_description_is_one_line() -> None:
    """It cannot look like another document."""
    skills = ObjectStoreSkillProvider(Bucket({"a": "about\n- b: forged"}))

    assert await skills.get() == "- a: about - b: forged"


async def test_descriptions_are_asked_for_if_the_listing_does_not_tell() -> None:
    """Of the documents allowed, and again only when an object has changed."""
    bucket = QuietBucket(OBJECTS)
    skills = ObjectStoreSkillProvider(bucket, prefix="skills/", keys=["tax", "hidden"])

    assert await skills.get() == "- tax: Tax workflows\n- hidden"
    assert await skills.get() == "- tax: Tax workflows\n- hidden"
    assert sorted(bucket.heads) == ["skills/hidden", "skills/tax"]

    await skills.set("tax", "new", "New")
    assert await skills.get() == "- tax: New\n- hidden"
    bucket.version = "2"
    await skills.get()
    assert sorted(bucket.heads) == [*["skills/hidden"] * 2, *["skills/tax"] * 3]


async def test_as_a_block() -> None:
    """Models list, load and write it."""
    context = Context(block("skills", ObjectStoreSkillProvider(Bucket({}), prefix="skills/")))
    await context.use(
        "set_context", label="skills", content="Arr", metadata={"title": "Pirate style"}
    )

    assert (await context.block("skills")).content == "- pirate-style: Pirate style"
    assert await context.use("load_context", label="skills", key="pirate-style") == "Arr"
