"""HTTP connections that do not keep more of an unfinished head than any client needs."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
"""What a client may send before a head, or what stands between parts of a body, is finished."""


class BoundedHeadProtocol(HttpToolsProtocol):
    """Uvicorn's, which by itself keeps whatever comes until a head is finished.

    Nobody has shown a token by then. A longer head is answered with 400, and the connection closed.
    """

    _unfinished = 0
    _has_finished = False

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._has_finished = False
        super().data_received(data)
        self._unfinished = 0 if self._has_finished else self._unfinished + len(data)
        if self._unfinished > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_headers_complete(self) -> None:
        """Note that a head is finished."""
        self._has_finished = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Note that a part of a body has come, whose length others limit."""
        self._has_finished = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that a request is finished."""
        self._has_finished = True
        super().on_message_complete()
