"""The files of deploy/ name commands, options and settings that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from agent_runtime.cli import app
from agent_runtime.config import PREFIX, Settings, variable_name

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = DEPLOY / "compose.postgres.yaml"
KUBERNETES = DEPLOY / "kubernetes.postgres.yaml"
SETTINGS = {variable_name(field) for field in Settings.model_fields}


def _containers() -> Iterator[dict[str, Any]]:
    for document in yaml.safe_load_all(KUBERNETES.read_text()):
        template = document.get("spec", {}).get("template")
        if template is not None:
            yield from template["spec"]["containers"]


def _commands() -> Iterator[list[str]]:
    for service in yaml.safe_load(COMPOSE.read_text())["services"].values():
        if service.get("image") == "agent-runtime":
            yield service["command"]
    for container in _containers():
        yield container["args"]


COMMANDS = list(_commands())


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_is_one_of_the_program(command: list[str]) -> None:
    """It is parsed as the program would, without being run."""
    found: Any = typer.main.get_command(app)
    words = list(command)
    while hasattr(found, "commands"):
        found = found.commands[words.pop(0)]

    assert found.make_context(command[0], words).params


def test_the_files_run_what_an_installation_needs() -> None:
    """Both migrate, serve agents and let clients in."""
    assert sorted(command[0] for command in COMMANDS) == sorted(["db", "worker", "gateway"] * 2)


@pytest.mark.parametrize("path", sorted(DEPLOY.iterdir()), ids=lambda path: path.name)
def test_every_variable_is_a_setting(path: Path) -> None:
    """An unknown one would end the process."""
    assert set(re.findall(rf"{PREFIX}[A-Z_]+", path.read_text())) <= SETTINGS


def test_every_secret_that_is_read_is_there() -> None:
    """Keys of the Secret and references to it agree."""
    documents = list(yaml.safe_load_all(KUBERNETES.read_text()))
    [secret] = [each for each in documents if each["kind"] == "Secret"]
    read = {
        variable["valueFrom"]["secretKeyRef"]["key"]
        for container in _containers()
        for variable in container["env"]
        if "valueFrom" in variable
    }

    assert read == set(secret["stringData"])


def test_the_command_in_the_compose_file_gives_what_it_asks_for() -> None:
    """Each variable without a default is in the line that starts it all."""
    text = COMPOSE.read_text()
    head = text.partition("\nx-agents")[0]

    assert set(re.findall(r"\$\{(\w+):\?", text)) == set(re.findall(r"\b([A-Z_]+)=", head))
