"""Where the frames of an agent's conversations go, and where they do not (sessions 10.1)."""

from __future__ import annotations

from tests.conftest import Serve
from tests.support.chat_agent import Chat
from tests.support.eventually import assert_eventually
from tests.support.live_gateway import LiveGateway, live_gateway, next_frame

STATUS = "cf_agent_session"
PATH = "/agents/chat/a"


async def broadcasts(live: LiveGateway) -> int:
    """Return how many frames were ever meant for clients."""
    rows = await live.served.runtime.storage.read_feed(0, 1000)
    return len([row for row in rows if row.kind == "broadcast"])


async def test_nothing_is_kept_for_clients_that_are_not_there(serve: Serve) -> None:
    """Whoever connects later is told of what happens then, and of nothing before."""
    async with live_gateway(serve, Chat) as live:
        agent = live.served.client.agent("Chat", "a")
        await agent.call("say", "nobody hears it")
        assert await broadcasts(live) == 0

        async with live.connect(PATH) as socket:
            await next_frame(socket, "cf_agent_mcp_servers")
            await agent.call("say", "heard")
            first = await next_frame(socket, STATUS)
        assert await broadcasts(live) == 1

        async def is_gone() -> None:
            assert await live.served.runtime.storage.read_connections(agent.ref) == []

        await assert_eventually(is_gone)
        await agent.call("say", "nobody hears it")
        assert await broadcasts(live) == 1

        async with live.connect(PATH) as socket:
            await next_frame(socket, "cf_agent_mcp_servers")
            await agent.call("say", "heard again")
            last = await next_frame(socket, STATUS)
        # Of the last two messages together: it is the last one's frame.
        assert last["tokenEstimate"] == first["tokenEstimate"] + 15
