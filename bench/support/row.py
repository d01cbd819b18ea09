"""A row of the table and the figures that it yields."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.support.bench import Bench


@dataclass(frozen=True)
class Figure:
    """One measured figure.

    Args:
        what: What was measured, and against what.
        value: The ratio or amount.
        unit: "x" for ratios.
        at_most: The goal, if small is good.
        at_least: The goal, if large is good.
        evidence: The absolute numbers behind a ratio.
    """

    what: str
    value: float
    unit: str = "x"
    at_most: float | None = None
    at_least: float | None = None
    evidence: str = ""

    @property
    def goal(self) -> str:
        """The goal as text, empty if there is none."""
        if self.at_most is not None:
            return f"<= {number(self.at_most)} {self.unit}"
        if self.at_least is not None:
            return f">= {number(self.at_least)} {self.unit}"
        return ""

    @property
    def verdict(self) -> str:
        """ "ok" or "miss"; empty without a goal."""
        if self.at_most is not None:
            return "ok" if self.value <= self.at_most else "miss"
        if self.at_least is not None:
            return "ok" if self.value >= self.at_least else "miss"
        return ""


@dataclass(frozen=True)
class Row:
    """A row, by name; `run` measures and returns its figures."""

    name: str
    title: str
    run: Callable[[Bench], Awaitable[list[Figure]]]


class SkipRow(Exception):
    """The row cannot be measured here; the message says why."""


def number(value: float) -> str:
    """Write a number with about three digits."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"
