"""Recordings of the reference, made with a release of its client and server, played again here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.agents.pace import paced
from tests.e2e.comparison import (
    announce_states,
    answers_last,
    apply,
    leave_out,
    lines_by_client,
    renumber,
    results_with_answers,
)
from tests.e2e.conftest import Driver, read_record
from tests.e2e.differences import ANSWERS_LAST, DIFFERENCES, FIRST, LEFT_OUT, Difference
from tests.e2e.differences_lasting import LASTING_DIFFERENCES
from tests.e2e.differences_newest import NEWEST, NEWEST_DIFFERENCES

_TRANSCRIPTS = Path(__file__).parent / "transcripts"
_FOLDERS = {FIRST: _TRANSCRIPTS, NEWEST: _TRANSCRIPTS / f"agents-{NEWEST}"}
_PACES = (1, 3, 6, 12)
"""Tried in turn: on a busy machine the pauses of the recordings are too short for all to arrive."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What clients saw in a scenario, both ends being of one release."""

    release: str
    scenario: str

    def expected(self) -> dict[str, list[str]]:
        """Return what each client should see here, which is that save the listed differences."""
        record = read_record(_FOLDERS[self.release] / f"{self.scenario}.jsonl")
        seen = self._compared(record, is_reference=True)
        for difference in self.differences():
            seen[difference.who] = apply(difference, seen[difference.who])
        return _in_order(seen)

    def differences(self) -> Iterator[Difference]:
        """Yield the differences that this recording has."""
        for difference in [*DIFFERENCES, *NEWEST_DIFFERENCES, *LASTING_DIFFERENCES]:
            is_of_release = difference.release in (None, self.release)
            if is_of_release and difference.scenario == self.scenario:
                yield difference

    async def play(
        self, driver: Driver, host: str, folder: Path
    ) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Play the scenario at a host; return what each client should see, and what it saw."""
        expected = self.expected()
        for pace in _PACES:
            with paced(pace):
                record = await driver.record(self.scenario, host, folder, pace=pace)
            actual = _in_order(self._compared(record))
            if actual == expected:
                break
        return expected, actual

    def _compared(
        self, record: list[dict[str, Any]], *, is_reference: bool = False
    ) -> dict[str, list[str]]:
        seen = lines_by_client(record)
        if is_reference and self.release == FIRST:
            seen = {who: announce_states(lines) for who, lines in seen.items()}
        for left_out in LEFT_OUT:
            if left_out.scenario == self.scenario:
                before = sum(map(len, seen.values()))
                for who in [left_out.who] if left_out.who else list(seen):
                    seen[who] = leave_out(left_out, seen.get(who, []))
                assert not is_reference or sum(map(len, seen.values())) < before, left_out
        if self.scenario in ANSWERS_LAST:
            seen = {who: answers_last(renumber(lines)) for who, lines in seen.items()}
        return {who: renumber(lines) for who, lines in seen.items() if lines}


def _in_order(seen: dict[str, list[str]]) -> dict[str, list[str]]:
    return {who: results_with_answers(lines) for who, lines in seen.items()}


def recordings_of(release: str) -> list[Recording]:
    """Return the recordings made with a release."""
    return [Recording(release, path.stem) for path in sorted(_FOLDERS[release].glob("*.jsonl"))]
