"""The table as text, printed line by line while rows are measured."""

from __future__ import annotations

from bench.support.row import Figure, Row, number

_WIDTHS = (9, 58, 14, 14, 5)


def head() -> str:
    """Return the two lines above the rows."""
    line = _line("row", "what", "figure", "goal", "")
    return f"{line}evidence\n{'-' * (len(line) + 40)}"


def lines(row: Row, figures: list[Figure]) -> list[str]:
    """Return one line per figure."""
    return [
        _line(
            row.name,
            figure.what,
            f"{number(figure.value)} {figure.unit}",
            figure.goal,
            figure.verdict,
        )
        + figure.evidence
        for figure in figures
    ]


def skipped(row: Row, reason: str) -> str:
    """Return the line of a row that could not be measured."""
    return _line(row.name, f"{row.title}: skipped", "-", "", "") + reason


def _line(*cells: str) -> str:
    return "".join(f"{cell:<{width}}  " for cell, width in zip(cells, _WIDTHS, strict=True))
