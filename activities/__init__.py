"""Activities: all input and output that workflows ask for."""

from __future__ import annotations

if __name__ != "agent_runtime.activities":
    raise ImportError("import agent_runtime.activities, not activities")
