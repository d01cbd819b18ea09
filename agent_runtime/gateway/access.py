"""Who may use the gateway: bearer tokens, origins of web pages, and host names.

Web pages of other origins are kept out of WebSockets and of all that changes something, since a
browser lets them reach a gateway on its user's machine. Without tokens a gateway listens on the
loopback interface only, and answers to the names of that only: a page whose own name was made to
point there would otherwise pass as being of the same origin.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal
from urllib.parse import unquote_plus, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_runtime.errors import ConfigurationError
from agent_runtime.gateway.problems import problem

OPEN_PATHS = ("/healthz", "/readyz", "/openapi.json")
"""What needs no token: it says nothing about agents."""

MIN_TOKEN_LENGTH = 16
_READING_METHODS = ("GET", "HEAD", "OPTIONS")
_IN_QUERY = "token="
_READONLY = "agent_runtime.is_readonly"
_DIGEST = "agent_runtime.token_digest"
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}

Grant = Literal["full", "readonly"]


class Tokens:
    """Bearer tokens; only their digests are kept.

    Raises:
        ConfigurationError: A token is short, holds what cannot be in a header, or is in both lists.
    """

    def __init__(self, full: Iterable[str] = (), readonly: Iterable[str] = ()) -> None:
        self._grants: dict[bytes, Grant] = {}
        lists: list[tuple[Grant, Iterable[str]]] = [("full", full), ("readonly", readonly)]
        for grant, tokens in lists:
            for token in tokens:
                self._add(token, grant)

    def _add(self, token: str, grant: Grant) -> None:
        if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable():
            raise ConfigurationError(
                f"a token must have at least {MIN_TOKEN_LENGTH} printable ASCII characters; "
                'make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"'
            )
        if self._grants.setdefault(_digest(token), grant) != grant:
            raise ConfigurationError("a token is given as a full and as a read-only one")

    def __bool__(self) -> bool:
        return bool(self._grants)

    def grant(self, token: str) -> Grant | None:
        """Return what a token allows; takes as long whatever the token is."""
        given, found = _digest(token), None
        for digest, grant in self._grants.items():
            if hmac.compare_digest(digest, given):
                found = grant
        return found


def read_token_file(path: Path) -> Tokens:
    """Read tokens, one a line as `full TOKEN` or `readonly TOKEN`; # begins a comment.

    Raises:
        ConfigurationError: It cannot be read, or a line is none of these; tokens are not shown.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigurationError(f"the token file {path} cannot be read: {reason}") from None
    found: dict[str, list[str]] = {"full": [], "readonly": []}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or words[0] not in found:
            raise ConfigurationError(
                f"line {number} of the token file {path} is no `full TOKEN` or `readonly TOKEN`"
            )
        found[words[0]].append(words[1])
    return Tokens(found["full"], found["readonly"])


def check_bind(host: str, tokens: Tokens) -> None:
    """Refuse to listen where others can reach it unless they must show a token.

    Raises:
        ConfigurationError: The host is not of the loopback interface and there are no tokens.
    """
    if not tokens and not _is_loopback(host):
        raise ConfigurationError(
            f"{host} can be reached from other machines: give --token-file, or listen on 127.0.0.1",
            host=host,
        )


def is_readonly(scope: Scope) -> bool:
    """Tell whether a request or connection came with a read-only token."""
    return bool(scope.get(_READONLY, False))


def token_digest(scope: Scope) -> bytes | None:
    """Tell tokens apart; None for a request or connection that needed none."""
    digest: bytes | None = scope.get(_DIGEST)
    return digest


class AccessGuard:
    """Lets through what may come in, and notes read-only tokens for what is inside.

    Args:
        tokens: Without any, everybody who reaches the gateway may do everything.
        origins: Origins of web pages, `https://example.com`, besides the gateway's own; `*` is all.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, origins: Collection[str] = ()) -> None:
        self._app = app
        self._tokens = tokens
        self._origins = {check_origin(origin) for origin in origins}
        self._hosts = {urlsplit(origin).hostname for origin in self._origins} - {None}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI connection."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not self._tokens and not self._is_local_name(headers.get("host", "")):
            refusal = problem(
                403, "ForeignHost", "this gateway has no such name; see --allow-origin"
            )
        elif self._is_writing(scope) and not self._is_own_origin(headers):
            refusal = problem(403, "ForeignOrigin", "pages of this origin may not do that")
        elif not self._tokens or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        else:
            token, inner = _take_token(scope, headers)
            grant = self._tokens.grant(token)
            if grant is not None and (grant == "full" or _may_read(scope)):
                noted = {_READONLY: grant == "readonly", _DIGEST: _digest(token)}
                await self._app({**inner, **noted}, receive, send)
                return
            if grant is None:
                challenge = {"WWW-Authenticate": 'Bearer realm="agent-runtime"'}
                text = "a token is needed: Authorization: Bearer TOKEN"
                refusal = problem(401, "TokenNeeded", text, headers=challenge)
            else:
                refusal = problem(403, "ReadonlyToken", "this token may only read")
        await refusal(scope, receive, send)

    def _is_writing(self, scope: Scope) -> bool:
        return scope["type"] == "websocket" or scope["method"] not in _READING_METHODS

    def _is_own_origin(self, headers: Headers) -> bool:
        origins = headers.getlist("origin")
        if not origins or "*" in self._origins:
            return True
        if len(origins) > 1:
            return False
        origin = origins[0].lower()
        if origin in self._origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        host = headers.get("host", "").lower()
        port = _DEFAULT_PORTS.get(parts.scheme, "")
        return bool(parts.netloc) and parts.netloc.removesuffix(port) == host.removesuffix(port)

    def _is_local_name(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host.lower()}").hostname or ""
        except ValueError:
            return False
        return not name or name in self._hosts or "*" in self._origins or _is_local(name)


def check_origin(origin: str) -> str:
    """Return an origin in the form that browsers send.

    Raises:
        ConfigurationError: It is none.
    """
    lowered = origin.strip().lower().rstrip("/")
    try:
        parts = urlsplit(lowered)
    except ValueError:
        parts = urlsplit("")
    is_bare = lowered == f"{parts.scheme}://{parts.netloc}"
    if lowered != "*" and not (is_bare and parts.scheme and parts.netloc):
        raise ConfigurationError(f"{origin!r:.120} is no origin; write https://example.com, or *")
    return lowered


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _may_read(scope: Scope) -> bool:
    return scope["type"] == "websocket" or scope["method"] in _READING_METHODS


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _is_local(name: str) -> bool:
    """Tell whether a host name is an address or this machine: no page can make those its own."""
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
    return True


def _take_token(scope: Scope, headers: Headers) -> tuple[str, Scope]:
    """Return the token, and the scope without it: agents store what they are asked."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    kept = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
    inner = {**scope, "headers": kept}
    if scope["type"] == "websocket":
        # Browsers cannot set headers of a WebSocket. The rest of the query stays as it was sent.
        parts = scope["query_string"].decode("latin-1").split("&")
        in_query = [part[len(_IN_QUERY) :] for part in parts if part.startswith(_IN_QUERY)]
        rest = [part for part in parts if not part.startswith(_IN_QUERY)]
        inner["query_string"] = "&".join(rest).encode("latin-1")
        if in_query and scheme.lower() != "bearer":
            scheme, token = "bearer", unquote_plus(in_query[0])
    return (token.strip() if scheme.lower() == "bearer" else ""), inner
