"""Every setting of a process, from the environment: prefix `AGENT_RUNTIME_`.

The connection to Temporal is not among them; it follows Temporal's own environment configuration
(`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`, `TEMPORAL_TLS_*`, profiles).
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from agent_runtime.call import DEFAULT_TASK_QUEUE, EntityRun
from agent_runtime.errors import ConfigurationError
from agent_runtime.llm.model_config import ModelConfig, Provider
from agent_runtime.storage.database_url import is_database_url, place_of
from agent_runtime.storage.opening import open_storage
from agent_runtime.storage.protocol import Retention, Storage

PREFIX = "AGENT_RUNTIME_"
_CENTURY_SECONDS = 100 * 366 * 86_400

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]


class Settings(BaseSettings):
    """What a process is told from outside; make one with `load_settings`.

    Each field is the variable `AGENT_RUNTIME_` + its name in capitals.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", frozen=True, allow_inf_nan=False
    )

    data_dir: Path = Field(
        Path(".agent-runtime"),
        description="Directory with the agents' database; made if it is missing.",
    )
    database_url: SecretStr | None = Field(
        None,
        description="postgresql://user:password@host:5432/database in place of the data "
        "directory; see docs/postgres.md.",
    )
    database_sql_role: str | None = Field(
        None,
        min_length=1,
        max_length=63,
        description="PostgreSQL role whose rights the agents' own SQL has; the user's own without.",
    )
    task_queue: str = Field(
        DEFAULT_TASK_QUEUE,
        min_length=1,
        max_length=200,
        description="Names the installation: clients and workers with the same one share agents.",
    )
    call_timeout_seconds: float = Field(
        60.0,
        gt=0,
        le=86_400,
        description="How long a mutation or read waits for a worker before CallTimeoutError.",
    )
    entity_max_events: int = Field(
        500,
        ge=50,
        le=40_000,
        description="Workflow history events after which an agent's entity continues as new.",
    )
    entity_max_bytes: int = Field(
        256 * 1024,
        ge=16 * 1024,
        le=40 * 1024 * 1024,
        description="Workflow history bytes after which an agent's entity continues as new.",
    )
    entity_max_batches: int = Field(
        1_500,
        ge=1,
        le=1_900,
        description="Batches of mutations after which an entity continues as new; Temporal "
        "refuses more than 2,000 updates in one run.",
    )
    entity_idle_seconds: float = Field(
        600.0,
        gt=0,
        le=30 * 86_400,
        description="Idle time after which an entity ends; the next call starts it again.",
    )
    max_cached_agents: int = Field(
        2_000,
        ge=0,
        le=1_000_000,
        description="Entities that a worker keeps warm, about 60 KiB each.",
    )
    max_handlers: int = Field(
        5_000,
        ge=1,
        le=100_000,
        description="Agents whose handlers run at the same time in one worker.",
    )
    shutdown_grace_seconds: float = Field(
        5.0,
        ge=0,
        le=3_600,
        description="How long a stopping worker lets commits end; handlers are handed to others "
        "at once.",
    )
    receipt_age_seconds: float = Field(
        7 * 86_400.0,
        gt=0,
        le=_CENTURY_SECONDS,
        description="How long an idempotency key is remembered, at the least.",
    )
    receipt_count: int = Field(
        10_000,
        ge=1,
        description="Newest idempotency keys of an agent that are remembered whatever their age.",
    )
    history_count: int = Field(
        1_000, ge=1, description="Newest versions of an agent's state whose values are kept."
    )
    history_bytes: int = Field(
        16 * 1024 * 1024,
        ge=1,
        description="Bytes of an agent's state history whose values are kept at the most.",
    )
    outbox_age_seconds: float = Field(
        600.0,
        gt=0,
        le=_CENTURY_SECONDS,
        description="How long the change feed and answers of one-way batches are kept.",
    )
    gateway_host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address that the gateway listens on; others than loopback need tokens.",
    )
    gateway_port: int = Field(
        8787, ge=0, le=65_535, description="Port of the gateway; 0 takes a free one."
    )
    gateway_token_file: Path | None = Field(
        None,
        description="File with the gateway's tokens, a line each: full TOKEN or readonly TOKEN.",
    )
    gateway_tokens: SecretStr | None = Field(
        None, description="Tokens that may do everything, separated by commas."
    )
    gateway_readonly_tokens: SecretStr | None = Field(
        None, description="Tokens that may only read, separated by commas."
    )
    gateway_origins: str | None = Field(
        None,
        description="Origins of web pages that may use the gateway, separated by commas; * is all.",
    )
    gateway_max_frame_bytes: int = Field(
        2_200_000, ge=1_024, description="Longest frame of a client; a longer one closes with 1009."
    )
    gateway_max_body_bytes: int = Field(
        2_200_000, ge=1_024, description="Longest body of an HTTP request; a longer one gets 413."
    )
    gateway_max_import_bytes: int = Field(
        1_073_741_824,
        ge=1_024,
        description="Longest conversation that is imported over HTTP; it is kept in a temporary "
        "file meanwhile. A longer one gets 413.",
    )
    gateway_frames_per_second: float = Field(
        200.0,
        gt=0,
        le=1_000_000,
        description="Frames of one connection; twice as many at once after a pause, more close it "
        "with 1008.",
    )
    gateway_requests_per_second: float = Field(
        200.0,
        gt=0,
        le=1_000_000,
        description="HTTP requests with one token, or without tokens from one address; twice as "
        "many at once after a pause, more get 429.",
    )
    gateway_max_connections_per_agent: int = Field(
        1_000, ge=1, description="Open WebSockets of one agent in one gateway; more get 429."
    )
    gateway_max_connections: int = Field(
        10_000, ge=1, description="Open WebSockets of one gateway; more get 503."
    )
    model: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Language model that agents ask and that writes summaries, by its provider's "
        "name; none without.",
    )
    model_provider: Provider = Field(
        "openai", description="openai for chat completions, anthropic for the Messages API."
    )
    model_base_url: str | None = Field(
        None, description="Where the model's API begins; the provider's own address without."
    )
    model_api_key_env: str | None = Field(
        None, description="Name of the variable that holds the model's key, never the key itself."
    )
    model_context_window: int = Field(
        128_000, ge=1, description="Tokens that the model can read and write in one call."
    )
    model_max_output_tokens: int = Field(
        4_096, ge=1, description="Longest answer of the model, in tokens."
    )
    model_timeout_seconds: float = Field(
        300.0, gt=0, le=86_400, description="Longest call of the model."
    )
    model_input_price: float = Field(
        0.0, ge=0, description="Price of a million tokens that the model reads."
    )
    model_output_price: float = Field(
        0.0, ge=0, description="Price of a million tokens that the model writes."
    )
    model_cached_price: float | None = Field(
        None,
        ge=0,
        description="Price of a million tokens read from the provider's cache; as other input "
        "without.",
    )
    log_level: LogLevel = Field("info", description="debug, info, warning or error.")
    log_format: LogFormat = Field("text", description="text for people, json for machines.")

    @field_validator("database_url")
    @classmethod
    def _check_database_url(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not is_database_url(url.get_secret_value()):
            raise ValueError("it is no address of a PostgreSQL database")
        return url

    @field_validator("model_base_url", "model_api_key_env")
    @classmethod
    def _check_model(cls, value: str | None, field: ValidationInfo) -> str | None:
        name = str(field.field_name).removeprefix("model_")
        checked = ModelConfig.model_validate({"model": "model", name: value})
        return getattr(checked, name)  # type: ignore[no-any-return]

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values from the caller, then the environment, and from nowhere else."""
        return init_settings, env_settings

    def entity_run(self) -> EntityRun:
        """Return the limits of entity runs, for `AgentClient.connect(entity=...)`."""
        return EntityRun(
            "",
            "",
            self.entity_max_events,
            self.entity_max_bytes,
            self.entity_max_batches,
            self.entity_idle_seconds,
        )

    def retention(self) -> Retention:
        """Return how long things are kept, for `AgentRuntime.start(retention=...)`."""
        return Retention(
            receipt_age=timedelta(seconds=self.receipt_age_seconds),
            receipt_count=self.receipt_count,
            history_count=self.history_count,
            history_bytes=self.history_bytes,
            outbox_age=timedelta(seconds=self.outbox_age_seconds),
        )

    async def open_storage(self) -> Storage:
        """Open the database that the settings name.

        Raises:
            ConfigurationError: The address is none, or the client for PostgreSQL is missing.
            StorageError: The database cannot be used; says why.
        """
        return await open_storage(
            self.data_dir, self.plain_database_url, sql_role=self.database_sql_role
        )

    def chat_model(self) -> ModelConfig | None:
        """Return the language model, for `AgentRuntime.start(model=...)`; None if none is named."""
        if self.model is None:
            return None
        return ModelConfig(
            provider=self.model_provider,
            model=self.model,
            base_url=self.model_base_url,
            api_key_env=self.model_api_key_env,
            context_window=self.model_context_window,
            max_output_tokens=self.model_max_output_tokens,
            timeout_seconds=self.model_timeout_seconds,
            input_price=self.model_input_price,
            output_price=self.model_output_price,
            cached_price=self.model_cached_price,
        )

    @property
    def plain_database_url(self) -> str | None:
        """`database_url` with its password, for connecting; never to be printed."""
        return None if self.database_url is None else self.database_url.get_secret_value()

    @property
    def database(self) -> str:
        """What people call the database: a directory, or host and name; never a password."""
        url = self.plain_database_url
        return str(self.data_dir) if url is None else place_of(url)

    def database_fact(self) -> dict[str, str]:
        """Return what a process says of where its data is."""
        return {"data_dir" if self.database_url is None else "database": self.database}

    @property
    def call_timeout(self) -> timedelta:
        """`call_timeout_seconds` as a duration."""
        return timedelta(seconds=self.call_timeout_seconds)

    @property
    def shutdown_grace(self) -> timedelta:
        """`shutdown_grace_seconds` as a duration."""
        return timedelta(seconds=self.shutdown_grace_seconds)


_SECRETS = frozenset(
    name for name, field in Settings.model_fields.items() if "Secret" in str(field.annotation)
)
# Where a key may have been written by mistake.
_NEVER_SHOWN = _SECRETS | {"model_base_url", "model_api_key_env"}


def variable_name(field: str) -> str:
    """Return the environment variable of a setting."""
    return f"{PREFIX}{field.upper()}"


def load_settings(**overrides: Any) -> Settings:
    """Read and check all settings.

    Args:
        **overrides: Settings by name that win over the environment; None counts as not given.

    Raises:
        ConfigurationError: A variable with our prefix is unknown, or a value does not fit; names
            the variable.
    """
    _refuse_unknown(os.environ)
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_context=False)
        field = str(first["loc"][0])
        value = "***" if field in _NEVER_SHOWN else str(first["input"])
        raise ConfigurationError(
            f"{variable_name(field)}={value:.100} is wrong: {first['msg'].lower()}; "
            f"{Settings.model_fields[field].description}",
            variable=variable_name(field),
        ) from None


def _refuse_unknown(environment: Mapping[str, str]) -> None:
    known = [variable_name(field) for field in Settings.model_fields]
    for name in sorted(environment):
        if not name.upper().startswith(PREFIX) or name.upper() in known:
            continue
        nearest = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.0)
        raise ConfigurationError(
            f"{name} is no setting; did you mean {nearest[0]}? All settings are in "
            "docs/settings.md",
            variable=name,
            nearest=nearest[0],
        )
