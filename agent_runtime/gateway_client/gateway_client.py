"""Agents through a gateway: for Python programs that reach neither Temporal nor the storage."""

from __future__ import annotations

import importlib.util
import ipaddress
import re
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

from agent_runtime.errors import ConfigurationError, InvalidAgentError
from agent_runtime.gateway_client.gateway_agent import GatewayAgent
from agent_runtime.gateway_client.gateway_http import GatewayHttp
from agent_runtime.identity import AgentRef, agent_ref, kebab_case

if TYPE_CHECKING:
    from agent_runtime.gateway_client.gateway_link import GatewayLink

_SCHEMES = {"http": "ws", "ws": "ws", "https": "wss", "wss": "wss"}
_HTTP = {"http": "http", "ws": "http", "https": "https", "wss": "https"}
_NAME_IN_URL = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+")


class GatewayClient:
    """Reaches agents through a gateway; needs the extra `gateway`.

    `async with GatewayClient("http://127.0.0.1:8787") as client:`; one connection for each agent
    that is used, opened at its first use and again whenever it is lost.

    Args:
        url: Of the gateway, without `/agents`.
        token: Bearer token, where the gateway asks for one.
        prefix: First path segments of agents' URLs, as the gateway was given.
        timeout: How long a mutation waits for its receipt, lost connections included.
        frames_per_second: What is asked of an agent is sent no faster; gateways send away clients
            beyond their own limit, 200 by default.

    Raises:
        ConfigurationError: The URL is none, or the package `websockets` is missing.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8787",
        *,
        token: str | None = None,
        prefix: str = "agents",
        timeout: timedelta = timedelta(seconds=30),
        frames_per_second: float = 150.0,
    ) -> None:
        if importlib.util.find_spec("websockets") is None:
            raise ConfigurationError(
                "GatewayClient needs a package that is missing: "
                'pip install "temporal-agent-runtime[gateway]"'
            )
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES or not parts.hostname or parts.query or parts.fragment:
            raise ConfigurationError(
                f"{url!r:.200} is no address of a gateway; write http://host:port"
            )
        path = "/".join(part for part in (parts.path.strip("/"), prefix.strip("/")) if part)
        api = "/".join(part for part in (parts.path.strip("/"), "api/agents") if part)
        self._http = GatewayHttp(
            f"{_HTTP[parts.scheme]}://{parts.netloc}/{api}",
            token=token,
            is_local=_is_local(parts.hostname),
            timeout=timeout,
        )
        self._base = f"{_SCHEMES[parts.scheme]}://{parts.netloc}/{path}"
        self._is_local = _is_local(parts.hostname)
        self._token = token
        self._timeout = timeout
        self._frames_per_second = frames_per_second
        self._id = str(uuid4())
        self._links: dict[AgentRef, GatewayLink] = {}
        self._is_closed = False

    async def __aenter__(self) -> GatewayClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def agent(self, class_name: str, name: str) -> GatewayAgent:
        """Return an agent by its class and its name; connects to nothing yet.

        Raises:
            InvalidAgentError: One of the names cannot be an address, or the name has no place in a
                URL as it stands: gateways take it literally, without decoding.
            ConfigurationError: The client is closed.
        """
        ref = agent_ref(class_name, name)
        if not _NAME_IN_URL.fullmatch(name):
            raise InvalidAgentError(
                f"{name!r:.120} cannot be reached by a WebSocket, as URLs hold it in another form; "
                "use the HTTP API or AgentClient"
            )
        if self._is_closed:
            raise ConfigurationError("this client of a gateway is closed")
        if ref not in self._links:
            self._links[ref] = self._new_link(ref)
        return GatewayAgent(self._links[ref], self._http, ref, self._timeout)

    async def close(self) -> None:
        """Leave: subscriptions end, and what waits for an answer is told that none comes."""
        self._is_closed = True
        for link in self._links.values():
            await link.close()
        await self._http.close()

    def _new_link(self, ref: AgentRef) -> GatewayLink:
        from agent_runtime.gateway_client.gateway_link import GatewayLink

        return GatewayLink(
            f"{self._base}/{kebab_case(ref.class_name)}/{ref.name}",
            client_id=self._id,
            token=self._token,
            is_local=self._is_local,
            frames_per_second=self._frames_per_second,
        )


def _is_local(host: str) -> bool:
    # A proxy of the environment does not reach what listens on this machine.
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
