"""The newest release of the JavaScript client meets the wire that it knows from its own server.

Its recordings "queue" and "queue-context" are not here, as agents have no queue yet.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Driver
from tests.e2e.differences import FIRST
from tests.e2e.differences_newest import NEWEST
from tests.e2e.recordings import Recording, recordings_of
from tests.support.gateway_server import GatewayServer

UNCHANGED = (
    "client-set-state",
    "server-set-state",
    "rpc-ok",
    "rpc-stream",
    "session-status-frames",
    "terminal-close",
)
"""The client has not changed in these since the first release, so its recordings are good for both.

Its newest server has other sessions; the client hands the frames of either to its listeners.
"""

RECORDINGS = [*recordings_of(NEWEST), *(Recording(FIRST, scenario) for scenario in UNCHANGED)]


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda one: f"{one.release}-{one.scenario}")
async def test_recording(
    recording: Recording, gateway: GatewayServer, newest_driver: Driver, tmp_path: Path
) -> None:
    """Each client sees what it saw at the reference, save the listed differences."""
    expected, actual = await recording.play(newest_driver, gateway.host, tmp_path)

    assert expected == actual


async def test_client_is_the_newest(
    gateway: GatewayServer, newest_driver: Driver, tmp_path: Path
) -> None:
    """What these tests play is played by the release that they speak of."""
    meta, *_ = await newest_driver.record("connect-no-state", gateway.host, tmp_path)

    assert f"agents {NEWEST}, partysocket 1.3.0" == meta["client"]
