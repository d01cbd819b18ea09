# mypy: disable-error-code="import-not-found,import-untyped"
"""Restate doing the job: its server, its service and this client as three processes.

Runs in Restate's environment; `restate-server` must be on the PATH.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.peers.peer_line import serve_lines

FOLDER = Path(sys.argv[1])
_START_SECONDS = 40.0


def free_port() -> int:
    """Return a port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def main() -> None:
    """Start server and service, serve measurements, end both."""
    binary = shutil.which("restate-server")
    if binary is None:
        raise RuntimeError("restate-server is not on the PATH")
    ingress, admin, node, service = (free_port() for _ in range(4))
    environment = {
        **os.environ,
        "RESTATE_BASE_DIR": str(FOLDER / "restate"),
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RUST_LOG": "error",
    }
    processes = _launch(binary, environment, service)
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            await _register(session, admin, service)

            async def call(agent: str, key: str) -> object:
                url = f"http://127.0.0.1:{ingress}/Counter/{agent}/increment"
                headers = {"idempotency-key": key}
                async with session.post(url, json=key, headers=headers) as answer:
                    answer.raise_for_status()
                    return await answer.json()

            await serve_lines(call)
    finally:
        # With all their children (npm's `restate-server` only starts the program), and at once: the
        # service would wait for its connections to end, and nothing here is worth keeping.
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _launch(
    binary: str, environment: dict[str, str], port: int
) -> tuple[subprocess.Popen[bytes], ...]:
    script = str(Path(__file__).with_name("restate_service.py"))
    service = [sys.executable, script, str(FOLDER), str(port)]
    with (FOLDER / "restate.log").open("wb") as log:
        return (
            subprocess.Popen(
                [binary, "--no-logo"],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            ),
            subprocess.Popen(service, stdout=log, stderr=log, start_new_session=True),
        )


async def _register(session: aiohttp.ClientSession, admin: int, service: int) -> None:
    url = f"http://127.0.0.1:{admin}/deployments"
    body = {"uri": f"http://127.0.0.1:{service}", "force": True}
    async with asyncio.timeout(_START_SECONDS):
        while True:
            with contextlib.suppress(aiohttp.ClientError):  # not up yet
                async with session.post(url, json=body) as answer:
                    if answer.status < 300:
                        return
            await asyncio.sleep(0.2)


asyncio.run(main())
