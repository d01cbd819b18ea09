"""Text objects in S3, R2, GCS, Azure and others, by the library `obstore` (extra `s3`)."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Mapping, Sequence
from email.errors import HeaderParseError
from email.header import decode_header, make_header

import obstore
from obstore.store import ObjectStore as Bucket

from agent_runtime.errors import ContextBlockError
from agent_runtime.session.object_store import ObjectPage, StoredObject

_HEADERS = ("Cache-Control", "Content-")


class ObstoreStore:
    """An object store in a bucket.

    A key with an empty, `.` or `..` segment or a control character is none: the library would read
    it as another one.

    Args:
        bucket: For example `obstore.store.S3Store("skills", region="eu-central-1")`.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    # The library's async calls can abort the process at its exit, its sync ones do not.

    async def list(self, prefix: str, cursor: str | None = None) -> ObjectPage:
        """Return all objects whose key begins with a prefix, at once and without metadata."""
        return ObjectPage(await asyncio.to_thread(self._list, prefix))

    async def get(self, key: str) -> str | None:
        """Return an object's text, None if there is none or the key is none.

        Bytes that are no UTF-8 are shown as replacement characters.
        """
        return await asyncio.to_thread(self._get, key)

    async def put(self, key: str, text: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store an object whole; metadata may be any text of up to about 1,500 bytes.

        Raises:
            ContextBlockError: The key is none, or the text is not Unicode.
        """
        await asyncio.to_thread(self._put, key, text, metadata)

    async def get_metadata(self, key: str) -> Mapping[str, str]:
        """Return what was put with an object, nothing if it is gone or the key is none."""
        return await asyncio.to_thread(self._get_metadata, key)

    def _list(self, prefix: str) -> Sequence[StoredObject]:
        # The library matches whole segments of a path only.
        folder = prefix.rpartition("/")[0]
        return [
            StoredObject(item["path"], version=f"{item['e_tag']} {item['last_modified']}")
            for page in obstore.list(self._bucket, folder or None)
            for item in page
            if item["path"].startswith(prefix)
        ]

    def _get(self, key: str) -> str | None:
        if not _is_key(key):
            return None
        try:
            content = obstore.get(self._bucket, key).bytes()
        except FileNotFoundError:
            return None
        return bytes(content).decode("utf-8", "replace")

    def _put(self, key: str, text: str, metadata: Mapping[str, str] | None) -> None:
        if not _is_key(key):
            raise ContextBlockError(f"{key!r} is no key of a bucket; give a path of plain names")
        try:
            content = text.encode()
        except UnicodeEncodeError:
            raise ContextBlockError("the text holds half a surrogate pair; mend it") from None
        attributes = {name: _header(value) for name, value in (metadata or {}).items()}
        obstore.put(self._bucket, key, content, attributes=attributes)

    def _get_metadata(self, key: str) -> Mapping[str, str]:
        if not _is_key(key):
            return {}
        try:
            attributes = obstore.get(self._bucket, key, options={"head": True}).attributes
        except FileNotFoundError:
            return {}
        return {
            name: _plain(value)
            for name, value in attributes.items()
            if not name.startswith(_HEADERS)
        }


def _is_key(key: str) -> bool:
    try:
        octets = key.encode()
    except UnicodeEncodeError:
        return False
    return all(segment not in ("", ".", "..") for segment in key.split("/")) and not any(
        octet < 0x20 or octet == 0x7F for octet in octets
    )


def _header(value: str) -> str:
    """Return a text as a header may hold it: S3 reads and writes RFC 2047 for what is not ASCII."""
    if value.isascii() and value.isprintable() and "=?" not in value:
        return value
    chunks = [value[start : start + 11] for start in range(0, len(value), 11)]
    words = [b64encode(chunk.encode("utf-8", "replace")).decode() for chunk in chunks]
    return " ".join(f"=?utf-8?b?{word}?=" for word in words)


def _plain(value: str) -> str:
    try:
        return str(make_header(decode_header(value)))
    except (HeaderParseError, LookupError, UnicodeDecodeError):
        return value
