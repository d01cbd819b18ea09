"""What the pages say is so: examples run, names exist, nothing is left out."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from agent_runtime.cli import app
from agent_runtime.commands.output import exit_code
from agent_runtime.config import Settings, variable_name
from agent_runtime.errors import AgentRuntimeError, ModelError, error_types
from agent_runtime.registry import load_agents
from tests.conftest import Serve
from tests.support.program import run_program

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
ERROR_ROW = re.compile(r"^\| `(\w+)` \| (\d) \| (no|yes, (?:same|new) key) \|", re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    """Return the code blocks of a language on a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


PYTHON = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks(page, "python"), 1)
]


def commands(command: Any, path: tuple[str, ...] = ("agent-runtime",)) -> Iterator[Any]:
    """Yield (path, command) of every command that runs something."""
    nested = getattr(command, "commands", {})
    if not nested:
        yield path, command
    for name, each in nested.items():
        yield from commands(each, (*path, name))


ALL_COMMANDS = list(commands(typer.main.get_command(app)))
COMMANDS = [pytest.param(path, command, id=" ".join(path)) for path, command in ALL_COMMANDS]


def test_the_smallest_agent_of_the_readme_is_the_example() -> None:
    """The README shows examples/quickstart.py, word for word but its docstring."""
    example = (ROOT / "examples" / "quickstart.py").read_text()
    shown = blocks(ROOT / "README.md", "python")[0]

    assert example.partition('"""\n\n')[2] == shown


async def test_the_smallest_agent_of_the_readme_runs(serve: Serve, tmp_path: Path) -> None:
    """Its call returns 42 after the README's set of 41, through the README's own command."""
    path = tmp_path / "readme_agent.py"
    path.write_text(blocks(ROOT / "README.md", "python")[0])
    async with serve(*load_agents(str(path))) as served:
        connection = ("--address", served.address, "--task-queue", served.task_queue)
        set_line = "state set CounterAgent visits"
        [value] = re.findall(rf"{set_line} '(.+)'", (ROOT / "README.md").read_text())
        ran = await run_program(*set_line.split(), value, *connection, cwd=tmp_path)

        count = await served.client.agent("CounterAgent", "visits").call("add", 1)

    assert (ran.code, count) == (0, 42)


async def test_the_service_of_the_readme_runs(serve: Serve, tmp_path: Path) -> None:
    """The second block is a whole program; it prints what the call returned and the state."""
    (tmp_path / "agents.py").write_text(blocks(ROOT / "README.md", "python")[0])
    service = blocks(ROOT / "README.md", "python")[1]
    async with serve(*load_agents(str(tmp_path / "agents.py"))) as served:
        connect = f"AgentClient.connect(task_queue={served.task_queue!r})"
        (tmp_path / "service.py").write_text(service.replace("AgentClient.connect()", connect))
        ran = await run_program(
            str(tmp_path / "service.py"),
            cwd=tmp_path,
            command=(sys.executable,),
            variables={"TEMPORAL_ADDRESS": served.address},
        )

    assert (ran.code, ran.out.splitlines()[0]) == (0, "1"), ran.err


@pytest.mark.parametrize("block", PYTHON)
def test_python_on_the_pages_compiles_and_imports_what_exists(block: str) -> None:
    """Every imported name is there, every name of ours that is used too."""
    tree = ast.parse(block)
    compile(tree, "page", "exec")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            module = importlib.import_module(node.module or "")
            missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
            assert missing == []
        elif isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)


@pytest.mark.parametrize("block", PYTHON)
def test_python_on_the_pages_runs_as_a_module(block: str) -> None:
    """Classes and decorators are accepted; nothing is started."""
    namespace: dict[str, Any] = {"__name__": "page"}

    exec(compile(block, "page", "exec"), namespace)

    assert len(namespace) > 2


@pytest.mark.parametrize("name", sorted(error_types()))
def test_every_error_is_on_the_page_with_its_exit_code(name: str) -> None:
    """docs/operations.md says code and repetition as the program has them."""
    cls: type[AgentRuntimeError] = error_types()[name]
    rows = {row[0]: row[1:] for row in ERROR_ROW.findall((ROOT / "docs/operations.md").read_text())}

    # Outcomes are recorded under the key of the call, those of its model among them.
    key = "new key" if issubclass(cls, ModelError) else "same key"
    repetition = f"yes, {key}" if cls.is_retryable else "no"
    assert rows.get(name) == (str(int(exit_code(cls("x")))), repetition)


def test_no_other_errors_are_on_the_page() -> None:
    """What is documented exists."""
    rows = ERROR_ROW.findall((ROOT / "docs/operations.md").read_text())

    assert {row[0] for row in rows} == set(error_types())


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_every_command_and_option_is_on_the_page(path: tuple[str, ...], command: Any) -> None:
    """docs/cli.md has a section for the command that names each option and argument."""
    text = (ROOT / "docs/cli.md").read_text()
    _, found, section = text.partition(f"\n## {' '.join(path)}\n")
    section = section.partition("\n## ")[0]
    wanted = [
        option
        for parameter in command.params
        for option in (parameter.opts if parameter.param_type_name == "option" else [])
    ]
    wanted += [each.metavar for each in command.params if each.param_type_name == "argument"]

    assert found != ""
    assert [name for name in wanted if name not in section] == []


def test_the_page_names_no_other_options() -> None:
    """What is documented exists."""
    documented = set(re.findall(r"--[a-z][a-z-]+", (ROOT / "docs/cli.md").read_text()))
    existing = {
        option
        for _, command in ALL_COMMANDS
        for parameter in command.params
        if parameter.param_type_name == "option"
        for option in parameter.opts
    }

    assert documented - existing == {"--version", "--help"} - existing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_variables_and_files_named_on_a_page_exist(page: Path) -> None:
    """Settings are known, links lead somewhere, and named files are there."""
    text = page.read_text()
    variables = set(re.findall(r"AGENT_RUNTIME_[A-Z_]*[A-Z]", text))
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    files = re.findall(
        r"`((?:agent_runtime|workflows|activities|examples|tests|deploy)/[\w/.]+)`", text
    )

    assert variables - {variable_name(field) for field in Settings.model_fields} == set()
    assert [link for link in links if not (page.parent / link).exists()] == []
    assert [name for name in files if not (ROOT / name).exists()] == []
