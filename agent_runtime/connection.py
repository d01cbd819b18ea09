"""Connecting to Temporal, with its own environment configuration and clear errors."""

from __future__ import annotations

import asyncio
import atexit
import re
import time
from typing import Any

from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import RetryConfig, RPCError

from agent_runtime.errors import ConfigurationError, TemporalUnreachableError

DEFAULT_ADDRESS = "127.0.0.1:7233"
# The SDK alone would wait three times as long for a port that takes connections and says nothing.
_CONNECT_SECONDS = 10.0

# The SDK's native threads may meet an interpreter that is being taken down and abort the process
# (temporalio/sdk-python issue 300); a moment to come to rest avoids it.
atexit.register(time.sleep, 0.05)


async def connect_temporal(
    address: str | None = None, namespace: str | None = None, *, retries_calls: bool = True
) -> Client:
    """Connect with what Temporal's environment configuration says (profiles, TLS, API key).

    Args:
        address: Host and port, in place of the configured one.
        namespace: In place of the configured one.
        retries_calls: Let the SDK repeat failed calls; the batcher does that itself.

    Raises:
        TemporalUnreachableError: Nothing answers there.
        ConfigurationError: The environment configuration is wrong.
    """
    try:
        options: dict[str, Any] = dict(ClientConfig.load_client_connect_config())
    except RuntimeError as error:
        raise ConfigurationError(f"Temporal's environment configuration: {error}") from error
    target = address or options.get("target_host") or DEFAULT_ADDRESS
    options["target_host"] = target
    if namespace is not None:
        options["namespace"] = namespace
    if not retries_calls:
        options["retry_config"] = RetryConfig(
            initial_interval_millis=1, max_retries=0, max_elapsed_time_millis=1
        )
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            return await Client.connect(**options)
    except (RuntimeError, RPCError, TimeoutError) as error:
        raise TemporalUnreachableError(
            f"no Temporal server answers at {target} ({_reason(error)}); start one with "
            "`agent-runtime dev`, or set TEMPORAL_ADDRESS, and for a cloud namespace "
            "TEMPORAL_NAMESPACE, TEMPORAL_API_KEY or TEMPORAL_TLS_*",
            address=target,
        ) from error
    except ValueError as error:
        raise ConfigurationError(f"Temporal address {target!r}: {error}") from error


def unreachable(error: RPCError) -> TemporalUnreachableError:
    """Return the error for a call that Temporal did not answer."""
    return TemporalUnreachableError(f"Temporal did not answer: {error.message}")


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing came back within {_CONNECT_SECONDS:g} s"
    text = str(error)
    # The SDK prints a nest of Rust values; the innermost quoted sentence is what happened.
    quoted: list[str] = re.findall(r'(?:message: |error: )"([^"]+)"', text)
    if quoted:
        return quoted[-1]
    return text.replace("Failed client connect: ", "").split("\n")[0][:200]
