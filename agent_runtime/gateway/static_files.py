"""A folder of files beside the agents: a page, its scripts and styles."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_runtime.errors import ConfigurationError

_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]


class StaticFolder:
    """Serves the files of a folder, and everything else by the application.

    Args:
        reserved: First path segments that are never files.

    Raises:
        ConfigurationError: There is no such folder.
    """

    def __init__(self, app: ASGIApp, folder: Path, reserved: Collection[str]) -> None:
        if not folder.is_dir():
            raise ConfigurationError(f"{folder} is no folder; name one with --static")
        self._app = app
        self._files = StaticFiles(directory=folder, html=True)
        self._reserved = reserved

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI connection."""
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            segments = [segment for segment in scope["path"].split("/") if segment]
            if not segments or segments[0] not in self._reserved:
                try:
                    response = await self._files.get_response(self._files.get_path(scope), scope)
                except HTTPException:
                    pass  # no such file, so it is the application's to say so
                else:
                    response.raw_headers.extend(_HEADERS)
                    await response(scope, receive, send)
                    return
        await self._app(scope, receive, send)
