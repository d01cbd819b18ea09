"""What the commands that serve until a signal comes have in common."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_runtime.registry import AgentClass

READY = "READY"


def announce(facts: Mapping[str, object]) -> None:
    """Print the one line that says what serves where."""
    words = shlex.join(f"{name}={value}" for name, value in {**facts, "pid": os.getpid()}.items())
    print(READY, words, flush=True)


def load_modules(modules: list[str]) -> list[AgentClass]:
    """Return the agent classes of all modules, each once.

    Raises:
        ConfigurationError: A module cannot be imported or has none.
    """
    from agent_runtime.registry import load_agents

    return list(dict.fromkeys(agent for module in modules for agent in load_agents(module)))


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGTERM and Ctrl-C set; a second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def arrived(number: int) -> None:
        if stop.is_set():
            leave(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, arrived, number)
    return stop


def stop_on_end_of_stdin(stop: asyncio.Event) -> None:
    """Set an event when stdin closes, as it does when the process dies that holds it."""
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()

    def readable() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            stop.set()

    try:
        loop.add_reader(descriptor, readable)
    except PermissionError:  # a file or /dev/null, which has ended already
        stop.set()


async def first_to_end(stop: asyncio.Event, *serving: asyncio.Task[None]) -> None:
    """Wait until an event is set or one of the tasks has ended."""
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({*serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()


def leave(code: int) -> None:
    """End the process at once, whatever its threads do."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
