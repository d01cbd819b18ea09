"""The public names, what importing them costs, and the direction of imports."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import agent_runtime

ROOT = Path(__file__).parents[2]

PUBLIC = [
    "UNSET",
    "Agent",
    "AgentCall",
    "AgentClient",
    "AgentHandle",
    "AgentRef",
    "AgentRuntime",
    "AgentRuntimeError",
    "AgentStep",
    "GatewayClient",
    "Json",
    "Receipt",
    "Retention",
    "Session",
    "SessionHandle",
    "SessionManager",
    "StateHistoryEntry",
    "StateSnapshot",
    "callable",
    "create_compact_function",
    "open_session_store",
    "text_message",
    "tool",
]
"""Adding a name is a release note; taking one away is a new major version."""

WORKFLOW_IMPORTS = {
    "agent_runtime.call",
    "agent_runtime.direct_read",
    "agent_runtime.identity",
    "agent_runtime.errors",
}
"""Modules of plain types, which workflows may import."""


def test_the_public_names_are_these() -> None:
    """No name is exported by chance, and none gets lost."""
    assert agent_runtime.__all__ == PUBLIC
    assert set(dir(agent_runtime)) == set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there(name: str) -> None:
    """Every listed name can be imported."""
    assert getattr(agent_runtime, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name fails as in any other module."""
    with pytest.raises(AttributeError, match="has no attribute 'Agnet'"):
        agent_runtime.Agnet  # noqa: B018
    with pytest.raises(ImportError):
        exec("from agent_runtime import Agnet")


def _modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    ["import agent_runtime", "import agent_runtime.steps", "from agent_runtime import AgentStep"],
)
def test_steps_bring_no_input_or_output(statement: str) -> None:
    """What workflows import loads no database, no JSON library and no agent code."""
    loaded = _modules_after(statement)

    assert loaded & {"aiosqlite", "orjson", "sqlite3", "pydantic", "httpx", "typer"} == set()
    heavy = {"agent_runtime.agent", "agent_runtime.client.agent_client", "agent_runtime.storage"}
    assert loaded & heavy == set()


def test_the_client_brings_no_worker() -> None:
    """A service that only calls agents loads neither workflows nor activities."""
    loaded = _modules_after("from agent_runtime import AgentClient")

    assert loaded & {"agent_runtime.workflows", "agent_runtime.activities"} == set()
    assert "temporalio.worker" not in loaded


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _files(folder: str) -> list[Path]:
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if path.is_file()]


def _layer(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] == "agent_runtime" and len(parts) > 2 else parts[0]


def test_workflows_import_plain_types_only() -> None:
    """Workflows know activities by name: they import neither them nor anything that does I/O."""
    for path in _files("workflows"):
        own = {name for name in _imports(path) if name.startswith("agent_runtime")}
        modules = {".".join(name.split(".")[:2]) for name in own}
        assert modules - {"agent_runtime"} <= WORKFLOW_IMPORTS, path.name


def test_activities_import_no_workflows() -> None:
    """Activities do not know who calls them."""
    for path in _files("activities"):
        found = [name for name in _imports(path) if "workflows" in name.split(".")]
        assert found == [], path.name


def test_only_the_composition_root_knows_workflows_and_activities() -> None:
    """In the library itself only `runtime.py` puts them together."""
    importing = {
        path.relative_to(ROOT / "agent_runtime").as_posix()
        for path in _files("agent_runtime")
        if _layer(path) not in ("workflows", "activities")
        for name in _imports(path)
        if name.startswith(("agent_runtime.workflows", "agent_runtime.activities"))
    }

    assert importing == {"runtime.py"}


def test_no_module_imports_the_top_level_folders() -> None:
    """`workflows` and `activities` live under one name, so that they are never loaded twice."""
    for folder in ("agent_runtime", "workflows", "activities", "tests"):
        for path in _files(folder):
            found = {name.split(".")[0] for name in _imports(path)}
            assert found & {"workflows", "activities"} == set(), path


def test_every_module_can_be_imported_alone() -> None:
    """No module needs another to be imported first."""
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in _files("agent_runtime")
        if path.stem not in ("__init__", "__main__")
    ]
    for name in names:
        importlib.import_module(name)
    ours = "[key for key in sys.modules if key.startswith('agent_runtime')]"
    forget = f"for key in {ours}: del sys.modules[key]"
    code = "\n".join(f"{forget}\nimport {name}" for name in names)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import sys\n{code}"],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.stderr == ""


def test_the_reading_order_names_files_that_are_there() -> None:
    """Whoever follows CONTRIBUTING.md finds each file it sends them to."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    tree = text[text.index("## Reading order") : text.index("## Habits")]
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", tree))

    folders = [ROOT / "agent_runtime", ROOT / "workflows", ROOT / "activities"]
    present = {f"/{path.relative_to(ROOT)}" for each in folders for path in each.rglob("*.py")}
    missing = [each for each in named if not any(path.endswith(f"/{each}") for path in present)]

    assert len(named) > 40
    assert missing == []
