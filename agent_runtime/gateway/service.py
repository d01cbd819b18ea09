"""The whole of a gateway: agents' own routes, the HTTP API, and what guards both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from agent_runtime.gateway.access import AccessGuard, Tokens, check_origin
from agent_runtime.gateway.app import build_app
from agent_runtime.gateway.gateway import Gateway
from agent_runtime.gateway.http_api import HttpApi
from agent_runtime.gateway.limits import LimitGuard, Limits
from agent_runtime.gateway.static_files import StaticFolder

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_READABLE_HEADERS = ("ETag", "Retry-After", "Allow")


def build_service(
    gateway: Gateway,
    *,
    tokens: Tokens | None = None,
    origins: Sequence[str] = (),
    limits: Limits | None = None,
    static_folder: Path | None = None,
) -> ASGIApp:
    """Return the application that `agent-runtime gateway` serves.

    Args:
        tokens: Who may come in; everybody without.
        origins: Origins of web pages besides the gateway's own.
        static_folder: Files to serve where no agent or route is; they need no token.

    Raises:
        ConfigurationError: An origin or the folder is none.
    """

    app: ASGIApp = HttpApi(build_app(gateway), gateway)
    app = LimitGuard(app, limits or Limits())
    app = AccessGuard(app, tokens or Tokens(), origins)
    if static_folder is not None:
        app = StaticFolder(app, static_folder, ("api", gateway.first_segment))
    if origins:
        app = CORSMiddleware(
            app,
            allow_origins=[check_origin(origin) for origin in origins],
            allow_methods=_METHODS,
            allow_headers=["*"],
            expose_headers=_READABLE_HEADERS,
        )
    return app
