"""An agent that indexes a folder in the background and remembers how far it came."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from pydantic import BaseModel

from agent_runtime import Agent, Json, callable

MAX_FILE_BYTES = 200_000
_WORD = re.compile(r"\w+")
_DEFINITION = re.compile(r"^\s*(?:async def|def|class)\s", re.MULTILINE)


class Index(BaseModel):
    """What everybody may see of the work."""

    status: str = "new"
    folder: str = ""
    files_total: int = 0
    files_done: int = 0
    bytes_done: int = 0
    words: int = 0
    definitions: int = 0
    progress: int = 0
    votes: int = 0
    note: str = ""


class IndexAgent(Agent[Index]):
    """Its state is the summary; what it found in each file is in its own database."""

    initial_state = Index()

    def validate_state_change(self, next_state: Index, source: str) -> None:
        """Refuse what cannot be."""
        if not 0 <= next_state.progress <= 100:
            raise ValueError("progress must be 0 to 100")

    @callable()
    async def scan(self, folder: str, max_files: int) -> int:
        """Note the files to index and return their number."""

        async def list_files() -> list[str]:
            return await asyncio.to_thread(find_files, Path(folder), max_files)

        # A repeat after a crash gets the same list, whatever became of the folder.
        paths = await self.step("list files", list_files)
        await self.sql(
            "CREATE TABLE IF NOT EXISTS files (id INTEGER PRIMARY KEY, path TEXT, bytes INTEGER, "
            "words INTEGER, definitions INTEGER)"
        )
        await self.sql("DELETE FROM files")
        await self.sql(
            "INSERT INTO files (id, path) SELECT key + 1, value FROM json_each(?)",
            json.dumps(paths),
        )
        await self.merge_state({"status": "indexing", "files_total": len(paths)})
        return len(paths)

    @callable()
    async def index_files(self, first: int, last: int) -> int:
        """Read the files of these numbers, keep what is in them, and add to the totals."""
        rows = await self.sql(
            "SELECT id, path FROM files WHERE id BETWEEN ? AND ? ORDER BY id", first, last
        )

        async def read() -> list[list[int]]:
            return await asyncio.to_thread(
                lambda: [[row["id"], *measure(Path(row["path"]))] for row in rows]
            )

        facts = await self.step("read files", read)
        await self.sql(
            "UPDATE files SET bytes = fact.value ->> 1, words = fact.value ->> 2, "
            "definitions = fact.value ->> 3 FROM json_each(?) AS fact "
            "WHERE files.id = fact.value ->> 0",
            json.dumps(facts),
        )

        def add(state: Index) -> Index:
            return state.model_copy(
                update={
                    "files_done": state.files_done + len(facts),
                    "bytes_done": state.bytes_done + sum(fact[1] for fact in facts),
                    "words": state.words + sum(fact[2] for fact in facts),
                    "definitions": state.definitions + sum(fact[3] for fact in facts),
                }
            )

        await self.update_state(add)
        return len(facts)

    @callable()
    async def vote(self) -> int:
        """Count one vote for this index."""
        await self.update_state(lambda state: state.model_copy(update={"votes": state.votes + 1}))
        return self.state.votes

    @callable()
    async def totals(self) -> dict[str, Json]:
        """Add up the agent's own database, to be compared with its state."""
        [row] = await self.sql(
            "SELECT COUNT(words) AS files_done, SUM(bytes) AS bytes_done, SUM(words) AS words, "
            "SUM(definitions) AS definitions FROM files"
        )
        return row


def find_files(folder: Path, max_files: int) -> list[str]:
    """Return Python and text files of a folder, of bearable size, without installed packages."""
    found = [
        str(path)
        for pattern in ("*.py", "*.txt")
        for path in folder.rglob(pattern)
        if "site-packages" not in path.parts and path.stat().st_size <= MAX_FILE_BYTES
    ]
    return sorted(found)[:max_files]


def measure(path: Path) -> tuple[int, int, int]:
    """Return bytes, words and definitions of a file."""
    text = path.read_text(errors="replace")
    return path.stat().st_size, len(_WORD.findall(text)), len(_DEFINITION.findall(text))
