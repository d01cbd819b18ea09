"""Live clients: the WebSocket and HTTP side of agents (state-and-sync 1 to 14)."""

from __future__ import annotations
