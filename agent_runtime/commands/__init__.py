"""The commands of the program `agent-runtime`; each imports what is heavy when it runs."""

from __future__ import annotations
