"""HTTP requests and responses as agents see them: plain values that can be stored."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from agent_runtime.json_value import Json, from_json, to_json


@dataclass(frozen=True, slots=True)
class Request:
    """A request that reached an agent, or the one that asked for a WebSocket.

    Args:
        url: The whole of it, as the client asked.
        headers: Names in lower case.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def path(self) -> str:
        """The path, not decoded."""
        return urlsplit(self.url).path

    @property
    def query(self) -> dict[str, list[str]]:
        """The query's values by name."""
        return parse_qs(urlsplit(self.url).query, keep_blank_values=True)

    def text(self) -> str:
        """Return the body as text; bytes that are no UTF-8 are replaced."""
        return self.body.decode(errors="replace")

    def json(self) -> Json:
        """Return the body as a JSON value.

        Raises:
            NotSerializableError: It is not JSON.
        """
        return from_json(self.body)

    def to_value(self) -> dict[str, Json]:
        """Return the request as JSON."""
        return {
            "method": self.method,
            "url": self.url,
            "headers": dict(self.headers),
            "body": base64.b64encode(self.body).decode(),
        }

    @classmethod
    def from_value(cls, value: Mapping[str, Json]) -> Request:
        """Read what `to_value` returned."""
        body = base64.b64decode(value["body"])
        return cls(value["method"], value["url"], value["headers"], body)


@dataclass(frozen=True, slots=True)
class Response:
    """What `on_request` returns.

    Args:
        body: Text, bytes, or any JSON value, which is sent as `application/json`.
        headers: Values by name; a list is sent as so many headers of the name, as several
            `Set-Cookie` must be, and an empty one as none.
    """

    body: Json | bytes = ""
    status: int = 200
    headers: Mapping[str, str | Sequence[str]] = field(default_factory=dict)

    def to_value(self) -> dict[str, Json]:
        """Return the response as JSON, its body in bytes and its headers complete."""
        headers: dict[str, Json] = {
            name.lower(): value if isinstance(value, str) else list(value)
            for name, value in self.headers.items()
        }
        if isinstance(self.body, bytes):
            body, kind = self.body, "application/octet-stream"
        elif isinstance(self.body, str):
            body, kind = self.body.encode(), "text/plain; charset=utf-8"
        else:
            body, kind = to_json(self.body, what="the response"), "application/json"
        headers.setdefault("content-type", kind)
        encoded = base64.b64encode(body).decode()
        return {"status": self.status, "headers": headers, "body": encoded}
