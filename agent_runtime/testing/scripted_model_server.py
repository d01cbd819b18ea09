"""A provider of models on this machine, which answers by a script."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

from agent_runtime.errors import NotSerializableError
from agent_runtime.json_value import Json, from_json, pack
from agent_runtime.llm.chat_model import ChatResponse
from agent_runtime.llm.model_config import ModelConfig, Provider
from agent_runtime.testing._model_wire import Family, body_of, events_of, refusal_of
from agent_runtime.testing.model_script import Answer, RawAnswer, Refusal, ScriptStep, Silence

_MAX_HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as the server got it.

    Args:
        headers: By name in small letters, the key among them.
        body: JSON.
    """

    path: str
    headers: Mapping[str, str]
    body: Json


class ScriptedModelServer:
    """Speaks chat completions and the Messages API on 127.0.0.1, over real connections.

    Each request takes the next step of the script. When the script is used up, requests are refused
    with 400, so that a test that asks too often fails::

        async with ScriptedModelServer("Hello.", Refusal("rate_limited")) as server:
            model = open_model(server.config())

    Args:
        script: Steps in order; a text or response alone is an answer.
        otherwise: Step of all requests after the script.
    """

    def __init__(self, *script: ScriptStep, otherwise: ScriptStep | None = None) -> None:
        self.requests: list[ReceivedRequest] = []
        """What was asked, in order of arrival."""
        self.connection_count = 0
        """How many connections were opened, ever."""
        self.hang_up_count = 0
        """How many requests the client gave up before their answer was whole."""
        self._script = deque(script)
        self._otherwise = otherwise
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    def play(self, *steps: ScriptStep) -> None:
        """Add steps to the script."""
        self._script.extend(steps)

    @property
    def url(self) -> str:
        """Where it listens, while it is entered."""
        if self._server is None:
            raise RuntimeError("the scripted server has no address before it is entered")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def config(self, provider: Provider = "openai", **changes: Json) -> ModelConfig:
        """Return a configuration that leads here, by default without a key.

        Args:
            changes: Other fields of `ModelConfig`.
        """
        fields = {"provider": provider, "model": "scripted", "base_url": self.url, **changes}
        return ModelConfig.model_validate(fields)

    async def __aenter__(self) -> ScriptedModelServer:
        """Listen on a free port."""
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", 0, limit=_MAX_HEAD_BYTES
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        task = asyncio.create_task(self._serve_and_close(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve_and_close(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            # A connection that the client closes, at whatever point, is no failure of the script.
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        finally:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await _read_request(reader)
            self.requests.append(request)
            playing = asyncio.create_task(self._play(request, writer))
            hang_up = asyncio.create_task(reader.read(1))
            try:
                await asyncio.wait({playing, hang_up}, return_when=asyncio.FIRST_COMPLETED)
                if not playing.done():
                    self.hang_up_count += 1
                    return
                if not playing.result():
                    return
            finally:
                playing.cancel()
                hang_up.cancel()
                await asyncio.gather(playing, hang_up, return_exceptions=True)

    async def _play(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        """Answer a request and return whether the connection is kept."""
        family = _family(request.path)
        step = self._next_step()
        if family is None or step is None:
            what = "path is unknown" if family is None else "script is used up"
            _answer(writer, 400, pack({"error": {"message": f"the scripted server's {what}"}}))
        elif isinstance(step, Silence):
            await asyncio.Event().wait()
        elif isinstance(step, Refusal):
            status, body = refusal_of(family, step)
            _answer(writer, status, pack(body), step.headers)
        elif isinstance(step, RawAnswer):
            headers = {"content-type": step.content_type, **step.headers}
            missing = 1 if step.is_lost else 0
            _answer(writer, step.status, step.body, headers, missing=missing)
            await writer.drain()
            return not step.is_lost
        elif request.body.get("stream"):
            return await _stream(writer, family, request, step)
        else:
            await asyncio.sleep(step.pause_seconds)
            if step.lost_after is not None:
                return False
            _answer(writer, 200, pack(body_of(family, request.body["model"], step.whole())))
        await writer.drain()
        return True

    def _next_step(self) -> Answer | Refusal | RawAnswer | Silence | None:
        step = self._script.popleft() if self._script else self._otherwise
        return Answer(step) if isinstance(step, str | ChatResponse) else step


async def _stream(
    writer: asyncio.StreamWriter, family: Family, request: ReceivedRequest, answer: Answer
) -> bool:
    _head(writer, 200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
    for event in events_of(family, request.body["model"], answer):
        if event is None:
            return False
        await asyncio.sleep(answer.pause_seconds)
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


def _head(writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str]) -> None:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {headers[name]}" for name in headers)]
    writer.write("\r\n".join([*lines, "", ""]).encode())


def _answer(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    *,
    missing: int = 0,
) -> None:
    length = {"content-length": str(len(body) + missing)}
    _head(writer, status, {"content-type": "application/json", **(headers or {}), **length})
    writer.write(body)


def _family(path: str) -> Family | None:
    if path.endswith("/chat/completions"):
        return "openai"
    return "anthropic" if path.endswith("/messages") else None


async def _read_request(reader: asyncio.StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    text = await reader.readexactly(int(headers.get("content-length", "0")))
    try:
        body = from_json(text)
    except NotSerializableError:
        body = {}
    return ReceivedRequest(first.split(" ")[1], headers, body)
