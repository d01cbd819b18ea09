"""The tables of test cases name tests that exist, and every numbered test is in one of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent_runtime.testing.storage_conformance import STORAGE_CHECKS, check_name

ROOT = Path(__file__).parents[2]
STATE = (ROOT / "docs" / "test-cases.md").read_text()
SESSIONS = (ROOT / "docs" / "session-cases.md").read_text()


def _tests() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return {name for path in files for name in re.findall(r"def (test_\w+)", path.read_text())}


def _checks() -> list[str]:
    return re.findall(r"checks? (`\w+`(?:, `\w+`)*[ ;|])", SESSIONS)


def _numbers(rows: list[str], prefix: str = "") -> list[int]:
    spans = [
        span.strip().removeprefix(prefix).split(f"-{prefix}")
        for row in rows
        for span in row.split(",")
    ]
    return [number for span in spans for number in range(int(span[0]), int(span[-1]) + 1)]


@pytest.mark.parametrize("table", [STATE, SESSIONS], ids=["state", "sessions"])
def test_every_named_test_exists(table: str) -> None:
    """No test of the table was renamed or taken away."""
    named = set(re.findall(r"\b(test_\w+)`", table)) - {"test_cases"}

    assert named != set()
    assert named - _tests() == set()


@pytest.mark.parametrize("table", [STATE, SESSIONS], ids=["state", "sessions"])
def test_every_named_file_exists(table: str) -> None:
    """Files are where the table says."""
    for name in re.findall(r"`(?:(\w+/)?(test_\w+\.py))", table):
        folder = name[0] or "integration/"
        assert (ROOT / "tests" / folder / name[1]).is_file(), name


@pytest.mark.parametrize(
    ("table", "pattern"),
    [(STATE, r"test_[wc]\d"), (SESSIONS, r"test_([srh]\d|golden)")],
    ids=["state", "sessions"],
)
def test_every_numbered_test_is_named(table: str, pattern: str) -> None:
    """A test with a case's number in its name stands in the table."""
    numbered = {name for name in _tests() if re.match(pattern, name)}

    assert numbered != set()
    assert {name for name in numbered if not re.search(rf"\b{name}`", table)} == set()


def test_every_case_is_listed_once() -> None:
    """All 300 cases of the contract have a row."""
    rows = re.findall(r"^\| (\d[\d, -]*) \|", STATE, re.MULTILINE)

    assert sorted(_numbers(rows)) == list(range(1, 301))


@pytest.mark.parametrize(
    ("prefix", "count"), [("", 229), ("R", 33), ("H", 15)], ids=["cases", "regressions", "hosts"]
)
def test_every_case_of_sessions_is_listed_once(prefix: str, count: int) -> None:
    """All of the contract's have a row; the golden vectors too."""
    rows = re.findall(rf"^\| ({prefix}\d[{prefix}\d, -]*) \|", SESSIONS, re.MULTILINE)

    assert sorted(_numbers(rows, prefix)) == list(range(1, count + 1))


def test_every_named_check_exists() -> None:
    """Checks of the storage are called what the table calls them."""
    named = set(re.findall(r"`([a-z0-9_]+)`(?=[,;. |])", " ".join(_checks())))

    assert named != set()
    assert named - {check_name(check) for check in STORAGE_CHECKS} == set()


def test_every_golden_vector_is_listed_once() -> None:
    """Those of section 26, and the examples of sections 9.4 and 12."""
    rows = re.findall(r"^\| 26\.(\d) ", SESSIONS, re.MULTILINE)

    assert [int(row) for row in rows] == list(range(1, 9))
