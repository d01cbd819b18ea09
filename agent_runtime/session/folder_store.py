"""Text objects as the files of a folder."""

from __future__ import annotations

import asyncio
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from agent_runtime.errors import ContextBlockError
from agent_runtime.session.object_store import ObjectPage, StoredObject

_SEGMENT = re.compile(r"(?!\.)[^/\\:\x00-\x1f\x7f\ud800-\udfff]+")


class FolderStore:
    """An object store whose objects are UTF-8 files below a folder, which may be edited by hand.

    A key is a relative path with `/`. Names that begin with a dot or hold a backslash, a colon or a
    control character are no keys, so that no key leads out of the folder; links in it are not
    followed. Metadata of `name` is kept beside it in `.name.json`.

    Args:
        folder: The folder; made on the first write.
    """

    def __init__(self, folder: str | Path) -> None:
        self._root = Path(folder)

    async def list(self, prefix: str, cursor: str | None = None) -> ObjectPage:
        """Return all files whose key begins with a prefix, at once."""
        return ObjectPage(await asyncio.to_thread(self._list, prefix))

    async def get(self, key: str) -> str | None:
        """Return a file's text, None if there is none or the key is none.

        Bytes that are no UTF-8 are shown as replacement characters.
        """
        return await asyncio.to_thread(self._get, key)

    async def put(self, key: str, text: str, metadata: Mapping[str, str] | None = None) -> None:
        """Write a file whole: readers see the old or the new text, after a crash too.

        Raises:
            ContextBlockError: The key is none, the text is not Unicode, or the file cannot be
                written.
        """
        await asyncio.to_thread(self._put, key, text, metadata)

    def _list(self, prefix: str) -> Sequence[StoredObject]:
        found = []
        for folder, folders, names in os.walk(self._root):
            folders[:] = [name for name in folders if _SEGMENT.fullmatch(name)]
            for name in names:
                path = Path(folder, name)
                key = path.relative_to(self._root).as_posix()
                if key.startswith(prefix) and self._path(key) is not None and os.path.isfile(path):
                    found.append(StoredObject(key, _metadata(path)))
        return sorted(found, key=lambda item: item.key)

    def _get(self, key: str) -> str | None:
        path = self._path(key)
        # Only plain files: reading a pipe would wait for ever.
        if path is None or not os.path.isfile(path):
            return None
        return path.read_bytes().decode("utf-8", "replace")

    def _put(self, key: str, text: str, metadata: Mapping[str, str] | None) -> None:
        path = self._path(key)
        if path is None:
            raise ContextBlockError(
                f"{key!r} is no key of a folder; give a relative path of plain names"
            )
        try:
            content = text.encode()
        except UnicodeEncodeError:
            raise ContextBlockError("the text holds half a surrogate pair; mend it") from None
        beside = _metadata_path(path)
        try:
            if metadata:
                _write(beside, orjson.dumps(dict(metadata)))
            _write(path, content)
            if not metadata:
                beside.unlink(missing_ok=True)
        except OSError as error:
            raise ContextBlockError(f"{key!r} cannot be written: {error.strerror}") from error

    def _path(self, key: str) -> Path | None:
        """Return where an object of that key is or would be, None if there cannot be one."""
        path = self._root
        for segment in key.split("/"):
            if not _SEGMENT.fullmatch(segment):
                return None
            path /= segment
            if os.path.islink(path):
                return None
        return path


def _metadata(path: Path) -> Mapping[str, str]:
    try:
        found = orjson.loads(_metadata_path(path).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _metadata_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.json")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{uuid.uuid4().hex}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
