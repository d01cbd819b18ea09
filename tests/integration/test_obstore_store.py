"""A bucket as an object store: in memory, and in a server that speaks S3."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from uuid import uuid4

import httpx
import obstore
import pytest
from moto.server import ThreadedMotoServer
from obstore.store import MemoryStore, S3Store

from agent_runtime.session.object_store_skills import ObjectStoreSkillProvider
from agent_runtime.session.obstore_store import ObstoreStore
from tests.support.object_store_contract import ObjectStoreContract, described


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of a server that speaks S3."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str) -> S3Store:
    """A new bucket on it."""
    name = f"bucket-{uuid4().hex}"
    httpx.put(f"{endpoint}/{name}", timeout=60).raise_for_status()
    return S3Store(
        name,
        endpoint=endpoint,
        region="us-east-1",
        access_key_id="test",
        secret_access_key="test",
        client_options={"allow_http": True},
    )


class TestMemoryStore(ObjectStoreContract):
    """A bucket in memory does what every store must do."""

    @pytest.fixture
    def store(self) -> ObstoreStore:
        """A new bucket."""
        return ObstoreStore(MemoryStore())


class TestS3Store(ObjectStoreContract):
    """A bucket in S3 does what every store must do."""

    @pytest.fixture
    def store(self, bucket: S3Store) -> ObstoreStore:
        """A new bucket."""
        return ObstoreStore(bucket)


async def test_a_long_listing_is_whole(bucket: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server sends it in pages."""
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
    for number in range(35):
        obstore.put(bucket, f"skills/{number:04}", b"x")
    listing = await ObjectStoreSkillProvider(ObstoreStore(bucket), prefix="skills/").get()

    assert listing is not None
    assert listing.splitlines() == [f"- {number:04}" for number in range(35)]


async def test_what_others_put_is_read(bucket: S3Store) -> None:
    """With and without metadata, in any encoding."""
    obstore.put(bucket, "a", b"a\xffb", attributes={"description": "plain", "Cache-Control": "no"})
    store = ObstoreStore(bucket)

    assert await store.get("a") == "a\ufffdb"
    assert await store.get_metadata("a") == {"description": "plain"}
    assert await store.get_metadata("gone") == {}
    assert await described(store) == {"a": "plain"}


async def test_skills_in_a_bucket(bucket: S3Store) -> None:
    """Written, listed and loaded."""
    skills = ObjectStoreSkillProvider(ObstoreStore(bucket), prefix="skills/")
    await skills.set("pirate-style", "Arr", "Пиратский стиль")
    await skills.set("tax", "Pay.")

    assert await skills.get() == "- pirate-style: Пиратский стиль\n- tax"
    assert await skills.load("pirate-style") == "Arr"
    assert await skills.load("../secret") is None
