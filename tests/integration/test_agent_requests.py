"""What agents answer to plain HTTP requests."""

from __future__ import annotations

import pytest

from agent_runtime import Agent
from agent_runtime.http_message import Request, Response
from tests.conftest import Serve
from tests.support.live_gateway import live_gateway


class Door(Agent):
    """Lets visitors in, with headers of all kinds."""

    async def on_request(self, request: Request) -> Response:
        """Set several cookies, and say how long the answer is."""
        headers = {
            "Set-Cookie": ["a=1; Path=/", "b=2"],
            "X-One": "1",
            "X-None": [],
            "Content-Length": "5",
        }
        return Response("hello", 201, headers)


async def test_a_response_repeats_a_header(serve: Serve) -> None:
    """A list of values is sent as headers of one name, in order, none twice."""
    async with live_gateway(serve, Door) as live:
        answer = await live.http.get("/agents/door/a")

    assert (answer.status_code, answer.text) == (201, "hello")
    assert answer.headers.get_list("set-cookie") == ["a=1; Path=/", "b=2"]
    assert answer.headers.get_list("content-length") == ["5"]
    assert answer.headers.get_list("content-type") == ["text/plain; charset=utf-8"]
    assert (answer.headers["x-one"], "x-none" in answer.headers) == ("1", False)


@pytest.mark.parametrize("values", [["a=1"], ("a=1", "b=2"), []])
def test_repeated_headers_travel_as_lists(values: list[str]) -> None:
    """As JSON has them; one value that is a text stays one."""
    fields = Response(b"", headers={"Set-Cookie": values, "X-One": "1"}).to_value()

    expected = {"set-cookie": list(values), "x-one": "1"}
    assert fields["headers"] == {**expected, "content-type": "application/octet-stream"}
