"""The client of docs/gateway.md, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from agent_runtime.registry import load_agents
from tests.conftest import Serve
from tests.e2e.conftest import DRIVER, Driver
from tests.support import npm
from tests.support.live_gateway import live_gateway

ROOT = Path(__file__).parents[2]
# Node has one of its own from release 22 on, as browsers have.
SOCKETS = 'import WS from "ws";\nglobalThis.WebSocket ??= WS;\n'


async def test_the_page_s_client_follows_and_calls_the_smallest_agent(
    serve: Serve, driver: Driver, tmp_path: Path
) -> None:
    """It prints the state that it is greeted with, the next one, and the result of its call."""
    [snippet] = re.findall(r"```js\n(.*?)```", (ROOT / "docs/gateway.md").read_text(), re.DOTALL)
    (tmp_path / "node_modules").symlink_to(DRIVER / "node_modules")
    agents = load_agents(str(ROOT / "examples" / "quickstart.py"))
    async with live_gateway(serve, *agents) as live:
        host = live.url.removeprefix("http://")
        (tmp_path / "visits.mjs").write_text(SOCKETS + snippet.replace("localhost:8787", host))

        printed = await Driver(npm.need_node(), tmp_path).run("visits.mjs")

    assert printed.splitlines() == ["server { count: 0 }", "server { count: 1 }", "1"]
