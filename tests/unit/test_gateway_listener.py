"""The socket that a gateway listens on."""

from __future__ import annotations

import socket

from agent_runtime.gateway.server import listen


def test_small_frames_are_sent_at_once() -> None:
    """Connections do not collect them until the client has acknowledged the ones before."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            is_set = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    assert is_set != 0
