"""The real JavaScript client meets the same wire here as at the reference server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Driver
from tests.e2e.differences import ANSWERS_LAST, DIFFERENCES, FIRST, LEFT_OUT
from tests.e2e.differences_lasting import LASTING_DIFFERENCES
from tests.e2e.differences_newest import NEWEST, NEWEST_DIFFERENCES
from tests.e2e.recordings import Recording, recordings_of
from tests.support.gateway_server import GatewayServer


@pytest.mark.parametrize("recording", recordings_of(FIRST), ids=lambda one: one.scenario)
async def test_recording(
    recording: Recording, gateway: GatewayServer, driver: Driver, tmp_path: Path
) -> None:
    """Each client sees what it saw at the reference, save the listed differences."""
    expected, actual = await recording.play(driver, gateway.host, tmp_path)

    assert expected == actual


@pytest.mark.parametrize("recording", recordings_of(FIRST), ids=lambda one: one.scenario)
async def test_recording_in_one_process(
    recording: Recording, joint_gateway: GatewayServer, driver: Driver, tmp_path: Path
) -> None:
    """The same where the gateway commits by itself, in the worker's process."""
    expected, actual = await recording.play(driver, joint_gateway.host, tmp_path)

    assert expected == actual


def test_every_difference_is_of_a_scenario() -> None:
    """No difference is listed for a recording that is not there."""
    differences = [*DIFFERENCES, *LASTING_DIFFERENCES]
    named = {one.scenario for one in differences} | {one.scenario for one in LEFT_OUT}
    named |= set(ANSWERS_LAST)

    assert named <= {one.scenario for one in recordings_of(FIRST)}
    assert {one.scenario for one in NEWEST_DIFFERENCES} <= {
        one.scenario for one in recordings_of(NEWEST)
    }
