"""A folder as an object store."""

# ruff: noqa: ASYNC240

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_runtime.errors import ContextBlockError
from agent_runtime.session.folder_store import FolderStore
from agent_runtime.session.object_store_skills import ObjectStoreSkillProvider
from tests.support.object_store_contract import ObjectStoreContract, described


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that does not exist yet, beside a secret."""
    (tmp_path / "secret").write_text("secret")
    return tmp_path / "skills"


@pytest.fixture
def store(folder: Path) -> FolderStore:
    """A store in it."""
    return FolderStore(folder)


class TestFolderStore(ObjectStoreContract):
    """What every store must do."""


async def test_files_may_be_edited_by_hand(folder: Path, store: FolderStore) -> None:
    """They are plain files; what is no UTF-8 is shown as such."""
    folder.mkdir()
    (folder / "pirate.md").write_text("Arr")
    (folder / "broken").write_bytes(b"a\xffb")

    assert await ObjectStoreSkillProvider(store).get() == "- broken\n- pirate.md"
    assert (await store.get("pirate.md"), await store.get("broken")) == ("Arr", "a\ufffdb")
    await store.put("new/one.md", "text", {"description": "d"})
    assert (folder / "new" / "one.md").read_text() == "text"


@pytest.mark.parametrize("key", [".hidden", "a/.hidden", "..", "a\\b", "c:x", ".git/config"])
async def test_hidden_and_foreign_names_are_no_keys(
    folder: Path, store: FolderStore, key: str
) -> None:
    """Descriptions and drafts are kept under such names."""
    assert await store.get(key) is None
    with pytest.raises(ContextBlockError, match="is no key"):
        await store.put(key, "x")
    assert not folder.exists()


@pytest.mark.parametrize("key", ["link", "dir/secret", "dir/new"])
async def test_links_are_not_followed(folder: Path, store: FolderStore, key: str) -> None:
    """They may lead anywhere."""
    folder.mkdir()
    (folder / "link").symlink_to(folder.parent / "secret")
    (folder / "dir").symlink_to(folder.parent)

    assert (await store.get(key), await described(store)) == (None, {})
    with pytest.raises(ContextBlockError, match="is no key"):
        await store.put(key, "x")
    assert (folder.parent / "secret").read_text() == "secret"
    assert not (folder.parent / "new").exists()


async def test_a_pipe_is_no_object(folder: Path, store: FolderStore) -> None:
    """Reading one would wait for ever."""
    folder.mkdir()
    os.mkfifo(folder / "pipe")

    assert (await store.get("pipe"), await described(store)) == (None, {})


async def test_a_file_is_no_folder(store: FolderStore) -> None:
    """Unlike in a bucket, a key cannot begin with another one and a slash."""
    await store.put("a", "x")

    assert await store.get("a/b") is None
    with pytest.raises(ContextBlockError, match="'a/b' cannot be written"):
        await store.put("a/b", "y")
    await store.put("c/d", "z")
    assert await store.get("c") is None
    with pytest.raises(ContextBlockError, match="'c' cannot be written"):
        await store.put("c", "y")
    assert await described(store) == {"a": None, "c/d": None}


async def test_a_name_that_is_too_long(folder: Path, store: FolderStore) -> None:
    """The error does not tell where the folder is."""
    folder.mkdir()
    assert await store.get("x" * 300) is None
    with pytest.raises(ContextBlockError, match="too long") as refusal:
        await store.put("x" * 300, "y")
    assert str(folder) not in str(refusal.value)


async def test_damaged_descriptions_are_none(folder: Path, store: FolderStore) -> None:
    """The document is there all the same."""
    await store.put("a", "x", {"description": "d"})
    (folder / ".a.json").write_text("[")

    assert await described(store) == {"a": None}


async def test_a_failed_write_leaves_no_draft(folder: Path, store: FolderStore) -> None:
    """The folder holds what it held."""
    await store.put("c/d", "z")
    with pytest.raises(ContextBlockError):
        await store.put("c", "y")

    assert [path.name for path in folder.rglob("*")] == ["c", "d"]


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    key=st.lists(st.sampled_from(["..", ".", "/", "\\", "\0", "a", "~", "$HOME", "\ud800", ":"]))
)
async def test_no_key_leads_out(tmp_path: Path, key: list[str]) -> None:
    """Whatever is written stays below the folder."""
    inner = tmp_path / "one" / "two" / "store"
    store = FolderStore(inner)
    name = "".join(key)
    try:
        await store.put(name, "x")
    except ContextBlockError:
        assert await store.get(name) is None
    else:
        assert await store.get(name) == "x"
    outside = [path for path in tmp_path.rglob("*") if not path.is_relative_to(inner)]
    assert {path.name for path in outside} <= {"one", "two"}
