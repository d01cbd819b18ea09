"""Settings of the unit tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine is slow now and then; that is nothing about the code.
settings.register_profile("unit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unit")
