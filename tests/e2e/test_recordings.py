"""The real JavaScript client meets the same wire here as at the reference server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.comparison import announce_states, apply, leave_out, lines_by_client, renumber
from tests.e2e.conftest import Driver, read_record
from tests.e2e.differences import DIFFERENCES, LEFT_OUT
from tests.support.gateway_server import GatewayServer

TRANSCRIPTS = Path(__file__).parent / "transcripts"
PACES = (1, 3, 6)
"""Tried in turn: on a busy machine the pauses of the recordings are too short for all to arrive."""

SCENARIOS = sorted(path.stem for path in TRANSCRIPTS.glob("*.jsonl"))


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_recording(
    scenario: str, gateway: GatewayServer, driver: Driver, tmp_path: Path
) -> None:
    """Each client sees what it saw at the reference, save the listed differences."""
    expected = _read(read_record(TRANSCRIPTS / f"{scenario}.jsonl"), scenario, is_reference=True)
    for difference in DIFFERENCES:
        if difference.scenario == scenario:
            expected[difference.who] = apply(difference, expected[difference.who])

    for pace in PACES:
        record = await driver.record(scenario, gateway.host, tmp_path, pace=pace)
        actual = _read(record, scenario)
        if actual == expected:
            break

    assert expected == actual


def _read(
    record: list[dict[str, Any]], scenario: str, *, is_reference: bool = False
) -> dict[str, list[str]]:
    seen = lines_by_client(record)
    if is_reference:
        seen = {who: announce_states(lines) for who, lines in seen.items()}
    for left_out in LEFT_OUT:
        if left_out.scenario == scenario:
            before = sum(map(len, seen.values()))
            for who in [left_out.who] if left_out.who else list(seen):
                seen[who] = leave_out(left_out, seen.get(who, []))
            assert not is_reference or sum(map(len, seen.values())) < before, left_out
    return {who: renumber(lines) for who, lines in seen.items() if lines}


def test_every_difference_is_of_a_scenario() -> None:
    """No difference is listed for a recording that is not there."""
    named = {one.scenario for one in DIFFERENCES} | {one.scenario for one in LEFT_OUT}

    assert named <= set(SCENARIOS)
