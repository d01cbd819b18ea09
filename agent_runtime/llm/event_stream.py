"""Server-sent events, as models stream their answers."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, AsyncIterator

from agent_runtime.errors import ModelResponseError, NotSerializableError
from agent_runtime.json_value import from_json

MAX_EVENT_BYTES = 16 * 1024 * 1024
DONE = b"[DONE]"
"""Ends a stream of the OpenAI dialect."""


async def read_events(pieces: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
    """Yield the data of each event, and an empty text for each sign of life without any.

    Lines end with CR, LF or both and nothing else: JSON may hold the other characters that Unicode
    takes for ends of lines. An event that was cut off is not told; one that is whole and lacks only
    its end at the end of the stream is.

    Raises:
        ModelResponseError: An event is bigger than 16 MiB, or no UTF-8.
    """
    data: list[bytes] = []
    size = 0
    is_first = True
    async for line in _lines(pieces):
        if is_first:
            is_first, line = False, line.removeprefix(BOM_UTF8)
        if not line:
            if data:
                yield _text(b"\n".join(data))
                data, size = [], 0
        elif line.startswith(b":"):
            yield ""
        else:
            name, _, value = line.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
                size += len(line)
                _check_size(size)
    last = b"\n".join(data)
    if last == DONE or _is_json(last):
        yield _text(last)


def _is_json(data: bytes) -> bool:
    try:
        from_json(data)
    except NotSerializableError:
        return False
    return True


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    held: list[bytes] = []
    size = 0
    is_after_return = False
    async for piece in pieces:
        if is_after_return and piece:
            is_after_return = False
            piece = piece.removeprefix(b"\n")
        if not piece:
            continue
        is_after_return = piece.endswith(b"\r")
        *ended, rest = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in ended:
            yield b"".join((*held, line))
            held, size = [], 0
        if rest:
            held.append(rest)
            size += len(rest)
            _check_size(size)
    if held:
        yield b"".join(held)


def _check_size(size: int) -> None:
    if size > MAX_EVENT_BYTES:
        raise ModelResponseError(
            "the model streamed an event of more than 16 MiB; the provider is at fault",
            reason="too_big",
        )


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ModelResponseError(
            "the model streamed text that is no UTF-8; the provider is at fault",
            reason="malformed",
        ) from None
