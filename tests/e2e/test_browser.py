"""A page with the real React hook, in a real browser."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

from playwright.async_api import async_playwright, expect
from starlette.responses import FileResponse, HTMLResponse
from starlette.routing import Route

from tests.e2e.agents import AGENTS
from tests.e2e.conftest import Driver
from tests.support import npm
from tests.support.gateway_server import GatewayServer

HTML = "<!doctype html><body><script type=module src=/page.js></script>"
# As root the sandbox refuses to start.
FLAGS = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]


async def test_pages_stay_in_step(gateway: GatewayServer, driver: Driver, tmp_path: Path) -> None:
    """Writes and calls of one page, and changes by a service, show in both."""
    script = tmp_path / "page.js"
    await driver.bundle("browser_page.jsx", script)
    routes = [
        Route("/page", lambda request: HTMLResponse(HTML)),
        Route("/page.js", lambda request: FileResponse(script)),
    ]
    client, name = gateway.gateway.client, f"room-{uuid4().hex[:8]}"
    program = npm.need("chromium", "chromium-browser", "google-chrome", package="chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=FLAGS)
        pages = [await browser.new_page(), await browser.new_page()]

        async def all_show(count: int) -> None:
            for page in pages:
                await expect(page.locator("output")).to_have_text(str(count), timeout=60_000)

        async with GatewayServer(client, AGENTS, routes=routes) as server:
            for page in pages:
                await page.goto(f"http://{server.host}/page?name={name}")
            await all_show(0)
            await pages[0].locator("#set").click()
            await all_show(10)
            await pages[1].locator("#call").click()
            await all_show(11)
        await client.agent("CounterAgent", name).set_state({"count": 100})
        async with GatewayServer(client, AGENTS, routes=routes, port=server.port):
            await all_show(100)
        await browser.close()
