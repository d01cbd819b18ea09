"""Configured models: what is refused, where keys come from, and what answers cost."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agent_runtime.errors import ModelAuthenticationError
from agent_runtime.llm import ModelConfig, Usage, usage_cost

SECRET = "sk-Secret-123"


@pytest.mark.parametrize(
    "fields",
    [
        {"api_key_env": SECRET},
        {"api_key_env": ""},
        {"base_url": "ftp://example.com"},
        {"base_url": "example.com/v1"},
        {"base_url": "https://"},
        {"base_url": "https://[::1"},
        {"base_url": "https://host:99999"},
        {"base_url": "https://host/ v1"},
        {"base_url": "https://hóst/v1"},
        {"base_url": f"https://user:{SECRET}@host/v1"},
        {"base_url": f"https://host/v1?key={SECRET}"},
        {"base_url": f"https://host/v1#{SECRET}"},
        {"extra_headers": {"x y": "1"}},
        {"extra_headers": {"x": "1\n2"}},
        {"extra_headers_env": {"x": SECRET}},
        {"model": ""},
        {"provider": "other"},
        {"input_price": -1},
        {"input_price": float("nan")},
        {"timeout_seconds": 0},
        {"max_output_tokens": 0},
        {"api_key": SECRET},
    ],
)
def test_wrong_fields_are_refused_without_showing_them(fields: dict[str, Any]) -> None:
    """Somebody who pastes a key where its variable's name belongs does not find it in a log."""
    with pytest.raises(ValidationError) as caught:
        ModelConfig.model_validate({"model": "m", **fields})

    assert SECRET not in str(caught.value)


def test_a_configuration_travels_as_json() -> None:
    """And is the same afterwards."""
    config = ModelConfig(model="m", base_url="http://localhost:11434/v1/", input_price=0.5)

    assert ModelConfig.model_validate_json(config.model_dump_json()) == config
    assert config.url == "http://localhost:11434/v1"


@pytest.mark.parametrize(
    ("fields", "variable"),
    [
        ({}, "OPENAI_API_KEY"),
        ({"provider": "anthropic"}, "ANTHROPIC_API_KEY"),
        ({"api_key_env": "MINE"}, "MINE"),
        ({"base_url": "http://localhost/v1"}, None),
        ({"base_url": "http://localhost/v1", "api_key_env": "MINE"}, "MINE"),
    ],
)
def test_a_key_comes_from_its_variable(
    fields: dict[str, Any], variable: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider's own key never goes to another address unasked."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MINE"):
        monkeypatch.setenv(name, f"key of {name}")

    key = ModelConfig.model_validate({"model": "m", **fields}).read_key()

    assert key == (f"key of {variable}" if variable else None)


@pytest.mark.parametrize("value", [None, "", "  \n"])
def test_a_variable_without_a_key_is_named(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not set, empty or blank are the same."""
    monkeypatch.delenv("MINE", raising=False)
    if value is not None:
        monkeypatch.setenv("MINE", value)

    with pytest.raises(ModelAuthenticationError, match="MINE is not set"):
        ModelConfig(model="m", api_key_env="MINE").read_key()


def test_an_answer_costs_what_its_tokens_do() -> None:
    """Each kind of token has its price; cached input costs as other input if nothing is said."""
    usage = Usage(1_000_000, 500_000, cached_tokens=600_000, cache_write_tokens=100_000)
    plain = ModelConfig(model="m", input_price=3.0, output_price=15.0)
    cached = plain.model_copy(update={"cached_price": 0.3, "cache_write_price": 3.75})

    assert usage_cost(usage, plain) == pytest.approx(3.0 + 7.5)
    assert usage_cost(usage, cached) == pytest.approx(0.9 + 0.18 + 0.375 + 7.5)
    assert usage_cost(Usage(), cached) == 0.0


def test_counts_that_contradict_cost_nothing_extra() -> None:
    """A provider that tells more cached input than input is not paid backwards."""
    config = ModelConfig(model="m", input_price=1.0, cached_price=0.0)

    assert usage_cost(Usage(10, 0, cached_tokens=20), config) == 0.0


def test_usages_add_up() -> None:
    """Field by field."""
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40) == Usage(11, 22, 33, 44)
