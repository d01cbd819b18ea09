"""The table of test cases names tests that exist, and every numbered test is in it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "test-cases.md").read_text()


def _tests() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return {name for path in files for name in re.findall(r"def (test_\w+)", path.read_text())}


def test_every_named_test_exists() -> None:
    """No test of the table was renamed or taken away."""
    named = set(re.findall(r"\b(test_\w+)`", TABLE)) - {"test_cases"}

    assert named - _tests() == set()


def test_every_named_file_exists() -> None:
    """Files are where the table says."""
    for name in re.findall(r"`(?:(\w+/)?(test_\w+\.py))", TABLE):
        folder = name[0] or "integration/"
        assert (ROOT / "tests" / folder / name[1]).is_file(), name


def test_every_numbered_test_is_named() -> None:
    """A test with a case's number in its name stands in the table."""
    numbered = {name for name in _tests() if re.match(r"test_[wc]\d", name)}

    assert {name for name in numbered if name not in TABLE} == set()


def test_every_case_is_listed_once() -> None:
    """All 300 cases of the contract have a row."""
    rows = re.findall(r"^\| (\d[\d, -]*) \|", TABLE, re.MULTILINE)
    spans = [span.strip().split("-") for row in rows for span in row.split(",")]
    cases = [number for span in spans for number in range(int(span[0]), int(span[-1]) + 1)]

    assert sorted(cases) == list(range(1, 301))
