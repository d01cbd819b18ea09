"""`agent-runtime session`, against a real worker and Temporal server."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_runtime import AgentHandle
from agent_runtime.session.message import text_message
from agent_runtime.storage.session_protocol import DAY_MILLISECONDS, SessionRef, UsageRow
from tests.conftest import Serve, Served
from tests.support.chat_agent import Chat
from tests.support.program import UNREACHABLE, Ran, run_program

WAYS = pytest.mark.parametrize("is_local", [True, False], ids=["storage", "temporal"])


class Shell:
    """Runs `agent-runtime session` on one agent; from afar, or beside the data directory."""

    def __init__(self, served: Served, cwd: Path) -> None:
        self._served = served
        self.cwd = cwd
        self.agent: AgentHandle = served.client.agent("Chat", "r")

    async def __call__(
        self,
        command: str,
        *arguments: str,
        name: str = "r",
        is_local: bool = False,
        address: str | None = None,
        stdin: str = "",
    ) -> Ran:
        """Run a command with these arguments after the agent's names."""
        variables = {
            "TEMPORAL_ADDRESS": address or self._served.address,
            "AGENT_RUNTIME_TASK_QUEUE": self._served.task_queue,
        }
        if is_local:
            variables["AGENT_RUNTIME_DATA_DIR"] = str(self._served.data_dir)
        given = ("session", command, "Chat", name, *arguments)
        return await run_program(*given, cwd=self.cwd, variables=variables, stdin=stdin)

    async def say(self, *ids: str, session: str = "", parent: str | None = None) -> None:
        """Append messages with these ids."""
        messages = [text_message("user", f"text of {each}", id=each) for each in ids]
        there = self.agent.session(session)
        if parent is None:
            await there.append_messages(messages)
        else:
            await there.append_messages(messages, parent)

    async def spend(self, key: str, *, day: int) -> None:
        """Note a call of a model on a day after the first of 1970."""
        row = UsageRow(key, "generate", "m", 10, 2, 0.25, day * DAY_MILLISECONDS)
        ref = SessionRef(self.agent.ref, "")
        storage = self._served.runtime.storage
        await storage.write(lambda tx: tx.sessions.jobs.add_usage(ref, row))


@pytest.fixture
async def shell(serve: Serve, tmp_path: Path) -> AsyncIterator[Shell]:
    """A shell in an empty folder, and a worker of agents that talk."""
    cwd = tmp_path / "elsewhere"
    cwd.mkdir()
    async with serve(Chat) as served:
        yield Shell(served, cwd)


@WAYS
async def test_a_session_is_shown_as_its_readers_see_it(shell: Shell, is_local: bool) -> None:
    """Summaries stand for what they summarize; a path ends where it is told to."""
    await shell.say("m0", "m1", "m2")
    await shell.agent.session().add_compaction("in short", "m0", "m1")

    shown = await shell("show", is_local=is_local)
    listed = await shell("show", "--leaf", "m0", "--json", is_local=is_local)

    assert shown.code == 0, shown.err
    assert "   in short\n-- user  m2\n   text of m2\n" in shown.out
    assert "text of m1" not in shown.out
    assert [each["id"] for each in listed.json["messages"]] == ["m0"]


async def test_reading_beside_the_data_directory_needs_no_temporal(shell: Shell) -> None:
    """show, tree, list, search and export read the database."""
    await shell.say("m0")
    commands = [("show",), ("tree",), ("list",), ("search", "text"), ("export",)]

    ran = [await shell(*each, is_local=True, address=UNREACHABLE) for each in commands]

    assert [each.code for each in ran] == [0] * 5, [each.err for each in ran]
    assert all("m0" in each.out for each in (ran[0], ran[1], ran[3], ran[4]))


@WAYS
async def test_a_tree_is_drawn_with_branches_head_and_summaries(
    shell: Shell, is_local: bool
) -> None:
    """The path to the head goes down, what was said otherwise hangs beside it."""
    await shell.say("m0", "m1", "m2")
    await shell.say("m1b", parent="m0")
    await shell.agent.session().add_compaction("in short", "m0", "m1")

    drawn = await shell("tree", is_local=is_local)
    listed = await shell("tree", "--json", is_local=is_local)
    cut = await shell("tree", "--limit", "2", is_local=is_local)

    lines = [line.rstrip() for line in drawn.out.splitlines()]
    assert lines == [
        "Chat/r, session (default)",
        "├── summary of m0 to m1  7 tokens  in short",
        "├── m0  user  8 tokens  71 bytes  text of m0",
        "│   └── branch 1",
        "│       ├── m1  user  8 tokens  71 bytes  text of m1",
        "│       └── m2  user  8 tokens  71 bytes  text of m2",
        "├── m1b  user  8 tokens  73 bytes  text of m1b  <- head",
        "└── 4 messages, 2 of them with 16 tokens on the path to the head; 1 summaries",
    ]
    assert (listed.json["head"], listed.json["is_whole"]) == ("m1b", True)
    assert [each["id"] for each in listed.json["nodes"]] == ["m0", "m1", "m2", "m1b"]
    assert "more than 2 messages" in cut.out


@WAYS
async def test_what_models_have_cost_is_listed_by_day(shell: Shell, is_local: bool) -> None:
    """Two calls of a day are one row; days can be chosen."""
    await shell.say("m0")
    await shell.spend("k1", day=20_000)
    await shell.spend("k2", day=20_000)
    await shell.spend("k3", day=20_001)

    table = await shell("usage", is_local=is_local)
    listed = await shell("usage", "--since", "2024-10-05", "--json", is_local=is_local)
    none = await shell("usage", "--session", "other", is_local=is_local)
    wrong = await shell("usage", "--until", "soon", is_local=is_local)

    assert table.code == 0, table.err
    assert re.search(r"2024-10-04 +\(default\) +m +generate +2 +20 +4 +0.5", table.out)
    assert listed.json["usage"] == [
        {
            "session_id": "",
            "day": "2024-10-05",
            "model": "m",
            "purpose": "generate",
            "calls": 1,
            "input_tokens": 10,
            "output_tokens": 2,
            "cost": 0.25,
        }
    ]
    assert none.out == "Chat/r has asked no model then\n"
    assert wrong.code == 2 and "2026-11-30" in wrong.err


@WAYS
async def test_sessions_are_listed_and_searched(shell: Shell, is_local: bool) -> None:
    """Those that are registered have a name; the search goes through one or all registered."""
    record = await shell.agent.sessions().create("side talk")
    await shell.say("m0", session=record.id)
    await shell.say("m0")

    table = await shell("list", is_local=is_local)
    listed = await shell("list", "--json", is_local=is_local)
    here = await shell("search", "text m0", "--json", is_local=is_local)
    everywhere = await shell("search", "TEXT", "--all", "--json", is_local=is_local)
    nothing = await shell("search", "nowhere", is_local=is_local)

    assert "(default)" in table.out and "side talk" in table.out
    assert [each["session_id"] for each in listed.json["sessions"]] == ["", record.id]
    assert [hit["session_id"] for hit in here.json["hits"]] == [""]
    assert [hit["session_id"] for hit in everywhere.json["hits"]] == [record.id]
    assert (nothing.code, nothing.out) == (0, "nothing was found\n")


async def test_a_session_is_summarized_and_continued_elsewhere(shell: Shell) -> None:
    """compact says what it did; fork makes a session that show can show."""
    nothing = await shell("compact")
    await shell.say(*(f"m{number}" for number in range(12)))
    done = await shell("compact", "--json")
    forked = await shell("fork", "m3", "from three", "--key", "k", "--json")
    again = await shell("fork", "m3", "from three", "--key", "k", "--json")
    session = forked.json["record"]["id"]
    shown = await shell("show", "--session", session, "--json")
    refused = await shell("fork", "nowhere", "x", "--json")

    assert (nothing.code, nothing.out) == (0, "nothing was summarized: the session is empty\n")
    assert done.code == 0 and done.json["compaction"]["summary"] == "what was said"
    assert forked.json == again.json
    assert [each["parts"][0]["text"] for each in shown.json["messages"]] == [
        f"text of m{number}" for number in range(4)
    ]
    assert (refused.code, refused.json["type"]) == (2, "UnknownMessageError")


@WAYS
async def test_what_was_exported_is_imported_into_another_agent(
    shell: Shell, is_local: bool
) -> None:
    """Through a file or a pipe; once more changes nothing, something else there is refused."""
    await shell.say("m0", "m1")
    await shell.say("m1b", parent="m0")
    await shell.agent.session().replace_context_block("memory", "tea")
    file = shell.cwd / "kept.jsonl"
    path = str(file)

    written = await shell("export", "--output", path, "--json", is_local=is_local)
    piped = await shell("export", is_local=is_local)
    first = await shell("import", path, name="other")
    again = await shell("import", "-", "--json", name="other", stdin=piped.out)
    copied = await shell("export", name="other", is_local=is_local)
    await shell.say("x", session="taken")
    taken = await shell("import", path, "--session", "taken", "--json")

    assert written.json["lines"] == len(piped.out.splitlines()) == 6
    assert file.read_text() == piped.out == copied.out
    assert first.out == "session (default): 3 messages, 0 summaries\n"
    assert (again.code, again.json["sessions"][0]["messages"]) == (0, 3)
    assert (taken.code, taken.json["type"]) == (2, "InvalidImportError")


async def test_sessions_of_the_reference_s_tables_are_imported(shell: Shell) -> None:
    """All of them; what was damaged is told, and the rest is there."""
    path = shell.cwd / "reference.sqlite"
    database = sqlite3.connect(path)
    database.executescript(REFERENCE_TABLES)
    rows = [
        ("a0", "", None, json.dumps(text_message("user", "hello", id="a0"))),
        ("a1", "", "a0", json.dumps(text_message("assistant", "hi", id="a1"))),
        ("b0", "side", None, json.dumps(text_message("user", "beside", id="b0"))),
        ("b1", "side", "b0", "{broken"),
    ]
    database.executemany(
        "INSERT INTO assistant_messages (id, session_id, parent_id, role, content) "
        "VALUES (?, ?, ?, 'user', ?)",
        rows,
    )
    database.execute("INSERT INTO assistant_sessions (id, name) VALUES ('side', 'Side')")
    database.commit()
    database.close()

    ran = await shell("import", "--reference", str(path), "--json")
    again = await shell("import", "--reference", str(path))
    shown = await shell("show", "--session", "side", "--json")
    listed = await shell("list", "--json")

    assert {each["session_id"]: each["messages"] for each in ran.json["sessions"]} == {
        "": 2,
        "side": 1,
    }
    assert [each["key"] for each in ran.json["problems"]] == ["b1"]
    assert again.code == 0 and "assistant_messages b1: left out" in again.err
    assert [each["id"] for each in shown.json["messages"]] == ["b0"]
    assert listed.json["sessions"][1]["record"]["name"] == "Side"


async def test_what_cannot_be_done_has_its_exit_code(shell: Shell) -> None:
    """2 for what is wrong, 3 where nothing answers; no file is left half written."""
    await shell.say("m0")
    output = shell.cwd / "out.jsonl"
    broken = shell.cwd / "broken.jsonl"
    broken.write_text('{"type":"session"')

    nobody = await shell("export", "--session", "no", "--output", str(output), "--json")
    missing = await shell("import", str(shell.cwd / "no.jsonl"))
    cut = await shell("import", str(broken), "--json")
    both = await shell("import", str(broken), "--reference", str(broken))
    no_tables = await shell("import", "--reference", str(broken), "--json")
    away = await shell("compact", address=UNREACHABLE)
    out_of_range = await shell("search", "x", "--limit", "0")

    assert (nobody.code, nobody.json["type"]) == (2, "UnknownSessionError")
    assert [each.name for each in shell.cwd.iterdir()] == ["broken.jsonl"]
    assert (missing.code, both.code, out_of_range.code, away.code) == (2, 2, 2, 3)
    assert (cut.code, cut.json["type"]) == (2, "InvalidImportError")
    assert (no_tables.code, no_tables.json["type"]) == (2, "InvalidImportError")


async def test_text_cannot_steer_the_terminal(shell: Shell) -> None:
    """Control characters of messages are spelt out, in every command for people."""
    evil = text_message("user\x1b[2J", "a\x1b]0;owned\x07\nb", id="m\x1b")
    await shell.agent.session().append_message(evil)

    ran = [await shell("show"), await shell("tree"), await shell("search", "owned")]

    assert [each.code for each in ran] == [0, 0, 0]
    assert all("\x1b" not in each.out and "\x07" not in each.out for each in ran)


REFERENCE_TABLES = """
CREATE TABLE assistant_messages (id TEXT PRIMARY KEY, session_id TEXT NOT NULL DEFAULT '',
    parent_id TEXT, role TEXT NOT NULL, content TEXT NOT NULL,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE assistant_compactions (id TEXT PRIMARY KEY, session_id TEXT NOT NULL DEFAULT '',
    summary TEXT NOT NULL, from_message_id TEXT NOT NULL, to_message_id TEXT NOT NULL,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE assistant_sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL, parent_session_id TEXT,
    model TEXT, source TEXT, input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0,
    estimated_cost REAL DEFAULT 0, end_reason TEXT, created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP);
"""
