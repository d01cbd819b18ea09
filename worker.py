"""The process you run: `python worker.py worker MODULE`, or everything with `dev MODULE`."""

from __future__ import annotations

import sys

from agent_runtime.cli import main

if __name__ == "__main__":
    sys.exit(main())
