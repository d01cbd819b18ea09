"""A page with the real React hook, in a real browser."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from starlette.responses import FileResponse, HTMLResponse
from starlette.routing import Route

from tests.e2e.agents import AGENTS
from tests.e2e.conftest import Driver
from tests.support.chromium import PROGRAM, Chromium
from tests.support.gateway_server import GatewayServer

HTML = "<!doctype html><body><script type=module src=/page.js></script>"


@pytest.mark.skipif(PROGRAM is None, reason="needs Chromium")
async def test_pages_stay_in_step(gateway: GatewayServer, driver: Driver, tmp_path: Path) -> None:
    """Writes and calls of one page, and changes by a service, show in both."""
    script = tmp_path / "page.js"
    await driver.bundle("browser_page.jsx", script)
    routes = [
        Route("/page", lambda request: HTMLResponse(HTML)),
        Route("/page.js", lambda request: FileResponse(script)),
    ]
    client, name = gateway.gateway.client, f"room-{uuid4().hex[:8]}"
    async with Chromium(tmp_path / "profile") as browser:
        async with GatewayServer(client, AGENTS, routes=routes) as server:
            url = f"http://{server.host}/page?name={name}"
            pages = [await browser.open(url), await browser.open(url)]
            for page in pages:
                await page.shows("output", "0")
            await pages[0].click("#set")
            for page in pages:
                await page.shows("output", "10")
            await pages[1].click("#call")
            for page in pages:
                await page.shows("output", "11")
        await client.agent("CounterAgent", name).set_state({"count": 100})
        async with GatewayServer(client, AGENTS, routes=routes, port=server.port):
            for page in pages:
                await page.shows("output", "100")
