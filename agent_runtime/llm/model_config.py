"""Which model to ask, where, under which key and at what price."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from agent_runtime.errors import ConfigurationError, ModelAuthenticationError
from agent_runtime.json_value import Json
from agent_runtime.llm.chat_model import Usage

Provider = Literal["openai", "anthropic"]

_HOME: dict[Provider, tuple[str, str]] = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
}
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_TOKENS_PER_PRICE = 1_000_000


class ModelConfig(BaseModel):
    """A model and how to reach it; holds no secret, only the names of variables that do.

    It may travel through workflow histories. Variables are read at each call, so that a key can be
    exchanged while workers run.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False
    )

    provider: Provider = Field(
        default="openai",
        description="`openai` for chat completions, which most servers speak; `anthropic` for the "
        "Messages API.",
    )
    model: str = Field(min_length=1, max_length=200, description="The provider's name for it.")
    base_url: str | None = Field(
        default=None, description="Where the API begins; the provider's own address if not given."
    )
    api_key_env: str | None = Field(
        default=None,
        description="Variable that holds the key. Without it, none is sent to a `base_url`; the "
        "provider's own address wants `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`.",
    )
    max_output_tokens: int = Field(
        default=4_096, ge=1, description="Longest answer, unless a request says otherwise."
    )
    context_window: int = Field(
        default=128_000, ge=1, description="Tokens that the model can read and write in one call."
    )
    reads_images: bool = Field(
        default=False,
        description="The model looks at images: those of user messages are sent to it. Else a line "
        "of text stands for each, as servers refuse what their model cannot look at.",
    )
    input_price: float = Field(default=0.0, ge=0, description="Price of a million tokens read.")
    output_price: float = Field(default=0.0, ge=0, description="Price of a million tokens written.")
    cached_price: float | None = Field(
        default=None,
        ge=0,
        description="Price of a million read from the cache; as other input if not given.",
    )
    cache_write_price: float | None = Field(
        default=None,
        ge=0,
        description="Price of a million put into the cache; as other input if not given.",
    )
    extra_headers: Mapping[str, str] = Field(
        default_factory=dict, description="Headers sent with each request; no secrets."
    )
    extra_headers_env: Mapping[str, str] = Field(
        default_factory=dict, description="Headers whose values are in these variables."
    )
    extra_body: Mapping[str, Json] = Field(
        default_factory=dict,
        description="Fields of the provider's own, such as `reasoning_effort`; they replace ours, "
        "and None takes one of ours out.",
    )
    timeout_seconds: float = Field(
        default=300.0,
        gt=0,
        le=86_400,
        description="Longest call, if the deadline does not come first.",
    )
    idle_timeout_seconds: float = Field(
        default=60.0, gt=0, le=86_400, description="Longest silence within a streamed answer."
    )
    connect_timeout_seconds: float = Field(
        default=10.0, gt=0, le=600, description="Longest wait for a connection."
    )
    deadline_margin_seconds: float = Field(
        default=1.0, ge=0, le=600, description="How long before the caller's deadline a call ends."
    )

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        try:
            parts = urlsplit(url)
            is_sound = (
                parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            )
        except ValueError:
            is_sound = False
        if not is_sound or not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError("write http://HOST or https://HOST, with port and path if needed")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError(
                "leave out user, password, query and fragment; secrets belong in variables that "
                "api_key_env and extra_headers_env name"
            )
        return url.rstrip("/")

    @field_validator("api_key_env")
    @classmethod
    def _check_variable(cls, name: str | None) -> str | None:
        if name is not None and not _VARIABLE.fullmatch(name):
            raise ValueError("write the variable's name, in capitals, never the key itself")
        return name

    @field_validator("extra_headers", "extra_headers_env")
    @classmethod
    def _check_headers(cls, headers: Mapping[str, str]) -> Mapping[str, str]:
        for name, value in headers.items():
            if not _HEADER.fullmatch(name) or not value.isascii() or not value.isprintable():
                raise ValueError("a header's name or value holds characters that headers cannot")
        return headers

    @field_validator("extra_headers_env")
    @classmethod
    def _check_header_variables(cls, headers: Mapping[str, str]) -> Mapping[str, str]:
        for name in headers.values():
            cls._check_variable(name)
        return headers

    @property
    def url(self) -> str:
        """Where the API begins, without a slash at the end."""
        return self.base_url or _HOME[self.provider][0]

    @property
    def key_env(self) -> str | None:
        """The variable that holds the key, or None if none is sent."""
        return self.api_key_env or (None if self.base_url else _HOME[self.provider][1])

    def read_key(self) -> str | None:
        """Return the key from its variable, or None if none is to be sent.

        Raises:
            ModelAuthenticationError: The variable is not set or empty.
            ConfigurationError: It holds what no header can.
        """
        return None if self.key_env is None else _read_secret(self.key_env, self.model)

    def read_headers(self) -> dict[str, str]:
        """Return the extra headers, in small letters, with values from variables filled in.

        Raises:
            ModelAuthenticationError: A variable is not set or empty.
            ConfigurationError: It holds what no header can.
        """
        secrets = {
            header: _read_secret(name, self.model)
            for header, name in self.extra_headers_env.items()
        }
        return {name.lower(): value for name, value in {**self.extra_headers, **secrets}.items()}

    def read_secrets(self) -> list[str]:
        """Return all that came from variables, longest first, to keep it out of logs."""
        names = [self.key_env or "", *self.extra_headers_env.values()]
        secrets = {os.environ.get(name, "").strip() for name in names} - {""}
        return sorted(secrets, key=len, reverse=True)


def usage_cost(usage: Usage, config: ModelConfig) -> float:
    """Return what an answer cost, in the currency of the configuration's prices."""
    cached = config.input_price if config.cached_price is None else config.cached_price
    written = config.input_price if config.cache_write_price is None else config.cache_write_price
    fresh = max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens)
    return (
        fresh * config.input_price
        + usage.cached_tokens * cached
        + usage.cache_write_tokens * written
        + usage.output_tokens * config.output_price
    ) / _TOKENS_PER_PRICE


def _read_secret(name: str, model: str) -> str:
    secret = os.environ.get(name, "").strip()
    if not secret:
        raise ModelAuthenticationError(
            f"the variable {name} is not set, which holds the key of model {model}; set it where "
            "the worker runs",
            model=model,
            variable=name,
        )
    if not secret.isascii() or not secret.isprintable():
        raise ConfigurationError(
            f"the variable {name} holds characters that a key cannot; copy the key again",
            variable=name,
        )
    return secret
