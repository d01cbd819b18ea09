"""Server-sent events: the same events, however the bytes are cut."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.errors import ModelResponseError
from agent_runtime.llm import event_stream
from agent_runtime.llm.event_stream import read_events


async def events_of(pieces: Iterable[bytes]) -> list[str]:
    """Read all events of a stream that arrives in these pieces."""

    async def arriving() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    return [event async for event in read_events(arriving())]


STREAM = (
    ": hello\n\nevent: x\ndata: {\"a\": \"\u2028\x85\x0c\"}\r\n\r\ndata:one\rdata: two\r\ndata:\r\r"
    "id: 3\nretry: 5\n\ndata\n\ndata: 🎲\n\ndata: cut off"
).encode()  # fmt: skip
EVENTS = ["", '{"a": "\u2028\x85\x0c"}', "one\ntwo\n", "", "🎲"]


async def test_events_are_told_in_order() -> None:
    """Comments are signs of life, other fields are skipped, and a cut off event is not told."""
    assert await events_of([STREAM]) == EVENTS


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=len(STREAM)))
async def test_cuts_change_nothing(cuts: list[int]) -> None:
    """Also within a letter, or between the two ends of a line."""
    edges = [0, *sorted(cuts), len(STREAM)]

    pieces = [STREAM[start:end] for start, end in pairwise(edges)]

    assert await events_of(pieces) == EVENTS


async def test_a_byte_order_mark_hides_nothing() -> None:
    """Some servers begin with one; the first event must not be lost for it, nor another mark."""
    stream = "\ufeffdata: \ufeffone\n\n\ufeffdata: no field\n\n".encode()

    assert await events_of([stream]) == ["\ufeffone"]
    assert await events_of(bytes([byte]) for byte in stream) == ["\ufeffone"]


@pytest.mark.parametrize("last", ["[DONE]", '{"a": 1}', "[DONE]\n", '{"a":\ndata: 1}\r\n'])
async def test_the_last_event_may_lack_its_end(last: str) -> None:
    """A server that closes right after it has said all the same."""
    stream = f"data: 0\n\ndata: {last}".encode()

    assert await events_of([stream]) == ["0", last.strip().replace("data: ", "")]


@pytest.mark.parametrize("last", ['{"a": 1', "[DON", "hello\n", ""])
async def test_half_an_event_is_not_told(last: str) -> None:
    """What a dropped connection leaves is no event."""
    assert await events_of([f"data: 0\n\ndata: {last}".encode()]) == ["0"]


async def test_each_byte_alone_is_enough() -> None:
    """The finest cut of all."""
    assert await events_of(bytes([byte]) for byte in STREAM) == EVENTS


@pytest.mark.parametrize("stream", [[b"data: " + b"x" * 99], [b"data: 123456789\n"] * 20])
async def test_endless_events_are_refused(
    stream: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider cannot fill the worker's memory, by one line nor by many."""
    monkeypatch.setattr(event_stream, "MAX_EVENT_BYTES", 80)

    with pytest.raises(ModelResponseError, match="16 MiB"):
        await events_of(stream)


async def test_what_is_no_utf8_is_refused() -> None:
    """Such text is nobody's answer."""
    with pytest.raises(ModelResponseError, match="UTF-8"):
        await events_of([b"data: \xff\n\n"])
