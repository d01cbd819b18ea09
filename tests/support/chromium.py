"""A headless Chromium, driven over its debugging protocol."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.support.eventually import assert_eventually

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")

_FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-port=0",
]


class Page:
    """One tab."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self._session = session

    async def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        answer = await self._browser.ask(
            "Runtime.evaluate",
            session=self._session,
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def click(self, selector: str) -> None:
        """Click an element."""
        await self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    async def shows(self, selector: str, text: str) -> None:
        """Wait until an element has a text."""

        async def check() -> None:
            found = await self.evaluate(
                f"document.querySelector({json.dumps(selector)})?.textContent ?? null"
            )
            assert found == text

        await assert_eventually(check)


class Chromium:
    """Runs while it is entered; its profile is thrown away with the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ids = itertools.count(1)
        self._process: asyncio.subprocess.Process | None = None
        self._socket: ClientConnection | None = None

    async def __aenter__(self) -> Chromium:
        """Start it and wait until it listens."""
        assert PROGRAM is not None
        self._process = await asyncio.create_subprocess_exec(
            PROGRAM,
            *_FLAGS,
            f"--user-data-dir={self._folder}",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        place = self._folder / "DevToolsActivePort"

        async def listens() -> None:
            assert place.is_file() and len(place.read_text().splitlines()) == 2

        await assert_eventually(listens, seconds=30)
        port, path = place.read_text().splitlines()
        self._socket = await connect(f"ws://127.0.0.1:{port}{path}", max_size=None)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        if self._socket is not None:
            await self._socket.close()
        if self._process is not None:
            self._process.terminate()
            await self._process.wait()

    async def open(self, url: str) -> Page:
        """Open a page in a tab of its own."""
        target = (await self.ask("Target.createTarget", url=url))["targetId"]
        attached = await self.ask("Target.attachToTarget", targetId=target, flatten=True)
        return Page(self, attached["sessionId"])

    async def ask(self, method: str, *, session: str | None = None, **params: Any) -> Any:
        """Send a command and return its answer; one at a time."""
        assert self._socket is not None
        command: dict[str, Any] = {"id": next(self._ids), "method": method, "params": params}
        if session is not None:
            command["sessionId"] = session
        await self._socket.send(json.dumps(command))
        while True:
            message = json.loads(await asyncio.wait_for(self._socket.recv(), 30))
            if message.get("id") == command["id"]:
                assert "error" not in message, message
                return message["result"]
