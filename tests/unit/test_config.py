"""Settings: defaults, the environment, and refusals that name the variable."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path

import pytest

from agent_runtime.call import EntityRun
from agent_runtime.config import PREFIX, Settings, load_settings, variable_name
from agent_runtime.errors import ConfigurationError
from agent_runtime.llm import ModelConfig
from agent_runtime.storage.protocol import Retention

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
FIELDS = sorted(Settings.model_fields)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start from an environment without settings."""
    for name in os.environ:
        if name.upper().startswith(PREFIX):
            monkeypatch.delenv(name)


def test_the_defaults_are_those_of_the_library() -> None:
    """Without variables a process behaves as one that was given nothing."""
    settings = load_settings()

    assert settings.retention() == Retention()
    assert settings.entity_run() == EntityRun("", "")
    assert settings.data_dir == Path(".agent-runtime")


def test_a_variable_sets_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are read in the type of their field."""
    monkeypatch.setenv("AGENT_RUNTIME_CALL_TIMEOUT_SECONDS", "2.5")

    assert load_settings().call_timeout == timedelta(seconds=2.5)


def test_an_option_wins_over_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said on the command line counts; None says nothing."""
    monkeypatch.setenv("AGENT_RUNTIME_TASK_QUEUE", "from-environment")

    assert load_settings(task_queue="from-option").task_queue == "from-option"
    assert load_settings(task_queue=None).task_queue == "from-environment"


def test_limits_of_entity_runs_reach_the_entity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the four settings has its place."""
    for number, name in enumerate(("EVENTS", "BYTES", "BATCHES")):
        monkeypatch.setenv(f"AGENT_RUNTIME_ENTITY_MAX_{name}", str(20_000 + number))
    monkeypatch.setenv("AGENT_RUNTIME_ENTITY_MAX_BATCHES", "1000")
    monkeypatch.setenv("AGENT_RUNTIME_ENTITY_IDLE_SECONDS", "7")

    assert load_settings().entity_run() == EntityRun("", "", 20_000, 20_001, 1_000, 7.0)


def test_an_unknown_variable_is_refused_with_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelling must not be ignored."""
    monkeypatch.setenv("AGENT_RUNTIME_MAX_HANDLER", "5")

    with pytest.raises(ConfigurationError) as refusal:
        load_settings()

    assert refusal.value.details_map == {
        "variable": "AGENT_RUNTIME_MAX_HANDLER",
        "nearest": "AGENT_RUNTIME_MAX_HANDLERS",
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_handlers", "many"),
        ("max_handlers", "0"),
        ("entity_max_batches", "5000"),
        ("entity_idle_seconds", "inf"),
        ("call_timeout_seconds", "-1"),
        ("receipt_age_seconds", "1e30"),
        ("log_level", "loud"),
        ("log_format", "xml"),
        ("task_queue", ""),
    ],
)
def test_a_wrong_value_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, field: str, value: str
) -> None:
    """The message names the variable, the value and what the setting is."""
    monkeypatch.setenv(variable_name(field), value)

    with pytest.raises(ConfigurationError) as refusal:
        load_settings()

    assert refusal.value.message.startswith(f"{variable_name(field)}={value} is wrong")
    assert refusal.value.details_map == {"variable": variable_name(field)}


def test_a_wrong_database_url_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold a password; the message names the variable and what it looks like."""
    monkeypatch.setenv("AGENT_RUNTIME_DATABASE_URL", "mysql://user:hunter2@host/agents")

    with pytest.raises(ConfigurationError) as refusal:
        load_settings()

    assert refusal.value.message.startswith("AGENT_RUNTIME_DATABASE_URL=*** is wrong")
    assert "hunter2" not in str(refusal.value.to_record())


def test_a_database_is_named_without_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What may be printed is host and name."""
    url = "postgresql://user:hunter2@host:5433/agents?sslmode=require"
    monkeypatch.setenv("AGENT_RUNTIME_DATABASE_URL", url)

    settings = load_settings()

    assert settings.database_fact() == {"database": "PostgreSQL host:5433/agents"}
    assert settings.plain_database_url == url
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize("field", FIELDS)
def test_every_setting_is_on_its_page(field: str) -> None:
    """docs/settings.md has variable, default and description of each."""
    info = Settings.model_fields[field]
    rows = re.findall(r"^\| `(\w+)` \| `([^`]*)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)

    assert (variable_name(field), str(info.default), info.description) in rows


def test_the_page_has_no_other_settings() -> None:
    """What is documented exists."""
    documented = set(re.findall(r"^\| `(AGENT_RUNTIME_\w+)`", PAGE.read_text(), re.MULTILINE))

    assert documented == {variable_name(field) for field in FIELDS}


def test_a_model_is_what_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name there is none."""
    monkeypatch.setenv("AGENT_RUNTIME_MODEL_PROVIDER", "anthropic")
    assert load_settings().chat_model() is None

    monkeypatch.setenv("AGENT_RUNTIME_MODEL", "small")
    monkeypatch.setenv("AGENT_RUNTIME_MODEL_BASE_URL", "http://127.0.0.1:8000/v1/")
    monkeypatch.setenv("AGENT_RUNTIME_MODEL_API_KEY_ENV", "MY_KEY")
    monkeypatch.setenv("AGENT_RUNTIME_MODEL_OUTPUT_PRICE", "2.5")
    assert load_settings().chat_model() == ModelConfig(
        provider="anthropic",
        model="small",
        base_url="http://127.0.0.1:8000/v1",
        api_key_env="MY_KEY",
        output_price=2.5,
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model_api_key_env", "sk-secret-1234"),
        ("model_base_url", "https://user:sk-secret-1234@host/v1"),
    ],
)
def test_a_key_written_in_the_wrong_place_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, field: str, value: str
) -> None:
    """The message names the variable and what to write."""
    monkeypatch.setenv(variable_name(field), value)
    with pytest.raises(ConfigurationError) as refusal:
        load_settings()

    assert refusal.value.details_map["variable"] == variable_name(field)
    assert "secret" not in refusal.value.message.replace("secrets", "")
