"""What goes wrong at the command line is one clear line and the right exit code."""

from __future__ import annotations

import os
import shlex
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agent_runtime.local.temporal_server import TemporalServer
from agent_runtime.storage.migrations import LATEST
from agent_runtime.storage.sqlite import FILE_NAME, SqliteStorage
from tests.support.program import PROGRAM, UNREACHABLE, Ran, run_program

AGENTS = """
from agent_runtime import Agent

class Notes(Agent):
    pass
"""

AS_NOBODY = """
import os, sys
import agent_runtime.cli as cli
import agent_runtime.client.agent_client, agent_runtime.config, rich.table
import agent_runtime.storage.sqlite
os.setgid(65534)
os.setuid(65534)
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture
async def data_dir(tmp_path: Path) -> Path:
    """A data directory with a sound, empty database."""
    storage = await SqliteStorage.open(tmp_path / "data")
    await storage.close()
    return tmp_path / "data"


@pytest.fixture
def read_only_dir(tmp_path: Path, data_dir: Path) -> Iterator[Path]:
    """A data directory that nobody may write."""
    for path in (tmp_path, *tmp_path.parents):
        if path == tmp_path or "pytest" in path.name:
            path.chmod(0o755)  # so that the trouble is the data directory, not the way to it
    data_dir.chmod(0o555)
    (data_dir / FILE_NAME).chmod(0o444)
    yield data_dir
    data_dir.chmod(0o755)


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    """A module with one agent."""
    path = tmp_path / "notes.py"
    path.write_text(AGENTS)
    return path


@pytest.fixture
def used_port() -> Iterator[int]:
    """A port that somebody listens on, and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def assert_refused(ran: Ran, code: int, *parts: str) -> None:
    """Check the exit code, and that stderr is one line with these parts in it."""
    assert (ran.code, ran.err.count("\n"), ran.out) == (code, 1, ""), ran
    missing = [part for part in parts if part not in ran.err]
    assert missing == [], ran.err


async def test_an_unreachable_server_is_code_3_and_quick(tmp_path: Path) -> None:
    """The message says what to check."""
    started = time.monotonic()

    ran = await run_program("state", "get", "Notes", "n", "--address", UNREACHABLE, cwd=tmp_path)

    assert_refused(
        ran, 3, "TemporalUnreachableError", UNREACHABLE, "Connection refused", "TEMPORAL_ADDRESS"
    )
    assert time.monotonic() - started < 25


async def test_a_silent_server_is_given_up(tmp_path: Path, used_port: int) -> None:
    """A port that accepts and says nothing does not hang the command."""
    ran = await run_program(
        "state", "get", "Notes", "n", "--address", f"127.0.0.1:{used_port}", cwd=tmp_path
    )

    assert_refused(ran, 3, "TemporalUnreachableError", "nothing came back within")


async def test_an_agent_that_no_worker_serves_is_code_3(
    tmp_path: Path, temporal: TemporalServer
) -> None:
    """Waiting ends at --timeout, and the message names the task queue."""
    ran = await run_program(
        *("state", "set", "Notes", "n", "1", "--address", temporal.address),
        *("--task-queue", "nobody-here", "--timeout", "1"),
        cwd=tmp_path,
    )

    assert_refused(ran, 3, "CallTimeoutError", "'nobody-here'")


async def test_an_empty_name_is_code_2(tmp_path: Path) -> None:
    """Nothing is contacted."""
    ran = await run_program("state", "get", "Notes", "", cwd=tmp_path)

    assert_refused(ran, 2, "InvalidAgentError", "at least one character")


async def test_a_class_name_that_cannot_be_is_code_2(tmp_path: Path) -> None:
    """A path is no class."""
    ran = await run_program("state", "get", "../x", "n", cwd=tmp_path)

    assert_refused(ran, 2, "InvalidAgentError", "../x")


async def test_invalid_json_is_code_2(tmp_path: Path) -> None:
    """The message names the place in the text."""
    ran = await run_program("state", "set", "Notes", "n", '{"a": }', cwd=tmp_path)

    assert_refused(ran, 2, "InvalidRequestError", "the argument is not JSON", "column 7")


async def test_invalid_json_on_stdin_is_code_2(tmp_path: Path) -> None:
    """The message says that it was stdin."""
    ran = await run_program("state", "set", "Notes", "n", "-", cwd=tmp_path, stdin="{")

    assert_refused(ran, 2, "InvalidRequestError", "stdin is not JSON")


async def test_bytes_that_are_no_text_on_stdin_are_code_2(tmp_path: Path) -> None:
    """Not even UTF-8 is no JSON."""
    command = ("/bin/sh", "-c", f"printf '\\377' | {shlex.join(PROGRAM)} state set Notes n -")

    ran = await run_program(cwd=tmp_path, command=command)

    assert_refused(ran, 2, "InvalidRequestError", "stdin is not JSON")


async def test_a_missing_argument_is_code_2(tmp_path: Path) -> None:
    """Wrong usage is one line like everything else."""
    ran = await run_program("state", "get", "Notes", cwd=tmp_path)

    assert_refused(ran, 2, "UsageError", "NAME", "--help")


@pytest.mark.parametrize("group", [(), ("session",), ("db",)])
async def test_a_group_without_a_command_is_its_help(tmp_path: Path, group: Sequence[str]) -> None:
    """On lines of its own, as --help prints it; with code 2, as nothing was done."""
    ran = await run_program(*group, cwd=tmp_path)
    helped = await run_program(*group, "--help", cwd=tmp_path)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.strip() == helped.out.strip()


async def test_wrong_usage_with_json_is_an_object(tmp_path: Path) -> None:
    """Scripts get JSON whatever happens."""
    ran = await run_program("state", "get", "Notes", "--json", cwd=tmp_path)

    assert (ran.code, ran.err, ran.json["type"]) == (2, "", "UsageError")


async def test_a_limit_out_of_range_is_code_2(tmp_path: Path) -> None:
    """history --limit is bounded."""
    ran = await run_program("state", "history", "Notes", "n", "--limit", "0", cwd=tmp_path)

    assert_refused(ran, 2, "InvalidRequestError", "1 to 1000")


async def test_an_unknown_setting_is_code_2(tmp_path: Path) -> None:
    """A misspelt variable is refused, not ignored."""
    ran = await run_program(
        "state", "get", "Notes", "n", cwd=tmp_path, variables={"AGENT_RUNTIME_DATADIR": "x"}
    )

    assert_refused(ran, 2, "AGENT_RUNTIME_DATADIR", "AGENT_RUNTIME_DATA_DIR?")


async def test_a_damaged_database_is_code_4(tmp_path: Path, data_dir: Path) -> None:
    """The message names the file and what to do."""
    (data_dir / FILE_NAME).write_bytes(b"this is no database" * 1_000)

    ran = await run_program("state", "get", "Notes", "n", "--data-dir", str(data_dir), cwd=tmp_path)

    assert_refused(ran, 4, "StorageCorruptError", str(data_dir / FILE_NAME), "restore a backup")


async def test_a_newer_schema_is_code_4(tmp_path: Path, data_dir: Path) -> None:
    """An older release never touches a newer file."""
    database = sqlite3.connect(data_dir / FILE_NAME)
    database.execute(f"PRAGMA user_version = {LATEST + 1}")
    database.close()

    ran = await run_program("agents", "list", "--data-dir", str(data_dir), cwd=tmp_path)

    assert_refused(ran, 4, "StorageSchemaError", f"schema {LATEST + 1}", "upgrade")


async def test_a_data_directory_that_cannot_be_written_is_code_4(
    tmp_path: Path, read_only_dir: Path
) -> None:
    """The message says whom to look at."""
    is_root = os.getuid() == 0
    command = (sys.executable, "-c", AS_NOBODY) if is_root else PROGRAM

    ran = await run_program(
        *("state", "get", "Notes", "n", "--data-dir", str(read_only_dir)),
        cwd=tmp_path,
        command=command,
    )

    assert_refused(ran, 4, "StorageReadOnlyError", str(read_only_dir))


async def test_a_data_directory_that_is_a_file_is_code_2(tmp_path: Path) -> None:
    """A file cannot hold a database."""
    (tmp_path / "file").write_text("")

    ran = await run_program(
        "state", "get", "Notes", "n", "--data-dir", str(tmp_path / "file"), cwd=tmp_path
    )

    assert_refused(ran, 2, "ConfigurationError", "is a file")


async def test_a_worker_whose_data_directory_is_a_file_is_code_2(
    tmp_path: Path, agents: Path
) -> None:
    """The worker refuses it too."""
    (tmp_path / "file").write_text("")

    ran = await run_program(
        "worker", str(agents), "--data-dir", str(tmp_path / "file"), cwd=tmp_path
    )

    assert_refused(ran, 2, "ConfigurationError", "cannot be the data directory")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("def broken(:\n", ("cannot be imported", "line 1")),
        ("x = 1\n", ("has no class derived from Agent",)),
        ("import no_such_module_at_all\n", ("cannot be imported", "no_such_module_at_all")),
        ("import sys\nsys.exit(3)\n", ("cannot be imported", "SystemExit", "line 2")),
        ("x = 1\nx.y\n", ("cannot be imported", "AttributeError", "line 2")),
    ],
)
async def test_a_module_that_cannot_be_served_is_code_2(
    tmp_path: Path, text: str, parts: tuple[str, ...]
) -> None:
    """The message names the module and the reason."""
    (tmp_path / "agents.py").write_text(text)

    ran = await run_program("worker", "agents.py", cwd=tmp_path)

    assert_refused(ran, 2, "ConfigurationError", "agents.py", *parts)


@pytest.mark.parametrize("module", ["missing.py", "no.such.module"])
async def test_a_module_that_is_not_there_is_code_2(tmp_path: Path, module: str) -> None:
    """As file and as dotted name."""
    ran = await run_program("worker", module, cwd=tmp_path)

    assert_refused(ran, 2, "ConfigurationError", module)


async def test_a_class_that_is_not_in_the_module_is_code_2(tmp_path: Path, agents: Path) -> None:
    """MODULE:Class names one class."""
    ran = await run_program("worker", f"{agents}:Other", cwd=tmp_path)

    assert_refused(ran, 2, "ConfigurationError", "agent class Other")


async def test_a_worker_without_temporal_is_code_3(tmp_path: Path, agents: Path) -> None:
    """It ends, for whoever supervises it to try again."""
    ran = await run_program("worker", str(agents), "--address", UNREACHABLE, cwd=tmp_path)

    assert_refused(ran, 3, "TemporalUnreachableError")


@pytest.mark.parametrize("option", ["--port", "--ui-port", "--gateway-port"])
async def test_a_used_port_is_code_2(
    tmp_path: Path, agents: Path, used_port: int, option: str
) -> None:
    """The message says what to do."""
    free = {"--port": "0", "--ui-port": "0", "--gateway-port": "0"}
    others = {**free, option: str(used_port)}

    ran = await run_program(
        "dev", str(agents), *(part for pair in others.items() for part in pair), cwd=tmp_path
    )

    assert_refused(ran, 2, f"port {used_port} is in use", f"choose another with {option}")


async def test_a_namespace_that_is_not_there_is_code_2(
    tmp_path: Path, agents: Path, temporal: TemporalServer
) -> None:
    """The worker says so at its start, it does not wait for work in vain."""
    ran = await run_program(
        *("worker", str(agents), "--address", temporal.address, "--namespace", "no-such"),
        cwd=tmp_path,
    )

    assert ran.code == 2, ran
    assert "refuses a worker for namespace 'no-such'" in ran.err
