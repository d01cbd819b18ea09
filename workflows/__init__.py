"""Temporal workflow definitions: deterministic, importing only plain types."""

from __future__ import annotations

if __name__ != "agent_runtime.workflows":
    raise ImportError("import agent_runtime.workflows, not workflows")
