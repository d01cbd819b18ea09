"""What Temporal's native core writes to the output."""

from __future__ import annotations

from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter


def quiet_core() -> None:
    """Let it write errors only."""
    quiet = LoggingConfig(filter=TelemetryFilter(core_level="ERROR", other_level="ERROR"))
    telemetry = TelemetryConfig(logging=quiet)
    Runtime.set_default(Runtime(telemetry=telemetry), error_if_already_set=False)
