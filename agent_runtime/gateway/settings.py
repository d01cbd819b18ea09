"""What the settings of a process mean for a gateway."""

from __future__ import annotations

from pydantic import SecretStr

from agent_runtime.config import Settings
from agent_runtime.errors import ConfigurationError
from agent_runtime.gateway.access import Tokens, read_token_file
from agent_runtime.gateway.limits import Limits


def tokens_of(settings: Settings) -> Tokens:
    """Return the tokens of the file, or else of the variables.

    Raises:
        ConfigurationError: There are both, or one is no token.
    """
    in_variables = [settings.gateway_tokens, settings.gateway_readonly_tokens]
    if settings.gateway_token_file is None:
        return Tokens(*map(_listed, in_variables))
    if any(in_variables):
        raise ConfigurationError("tokens are given both in a file and in variables; keep one")
    return read_token_file(settings.gateway_token_file)


def origins_of(settings: Settings) -> list[str]:
    """Return the origins that may use the gateway besides its own."""
    return [each.strip() for each in (settings.gateway_origins or "").split(",") if each.strip()]


def limits_of(settings: Settings) -> Limits:
    """Return what one client may send and hold."""
    return Limits(
        settings.gateway_max_frame_bytes,
        settings.gateway_max_body_bytes,
        settings.gateway_frames_per_second,
        settings.gateway_max_connections_per_agent,
        settings.gateway_max_connections,
        settings.gateway_requests_per_second,
        settings.gateway_max_import_bytes,
    )


def _listed(secret: SecretStr | None) -> list[str]:
    text = "" if secret is None else secret.get_secret_value()
    return [each.strip() for each in text.split(",") if each.strip()]
