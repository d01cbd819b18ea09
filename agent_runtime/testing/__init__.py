"""What users need to test agents and the storages that keep them."""

from __future__ import annotations
